#include "data/bpe_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/base/json.h"
#include "data/bpe_alphabet.h"
#include "data/input_file.h"

namespace laconic {
namespace {

using nlohmann::json;

/// Patterns by which tokenizers cut texts.
constexpr std::string_view kGpt2Patterns[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    // As tiktoken has it, before and since it says where nothing is tried again.
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s)"};
constexpr std::pair<std::string_view, const char*> kOtherPatterns[] = {
    {R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)", "Llama 3's, which is GPT-4's"},
    {R"(\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)", "Qwen's"}};

/// The member of that name; null if there is none.
json member(const json& object, const char* name) {
  return object.is_object() && object.contains(name) ? object[name] : json();
}

std::string type_of(const json& part) {
  const json type = member(part, "type");
  return type.is_string() ? type.get<std::string>() : "without a type";
}

[[noreturn]] void not_followed(const std::string& file, const std::string& what) {
  throw DataError(concat(file, ": ", what, ", which is not followed. ", kTakeGpt2s));
}

void require_gpt2_split(const std::string& file, const json& split) {
  const json pattern = member(member(split, "pattern"), "Regex");
  const std::string regex = pattern.is_string() ? pattern.get<std::string>() : member(split, "pattern").dump();
  std::string whose = "another pattern, " + regex;
  for (const auto& [part, name] : kOtherPatterns)
    if (regex.find(part) != std::string::npos) whose = concat("another pattern, ", name);
  if (std::ranges::find(kGpt2Patterns, regex) == std::end(kGpt2Patterns))
    not_followed(file, "its pre_tokenizer cuts texts by " + whose);
  if (member(split, "behavior") != json("Isolated") || member(split, "invert") == json(true))
    not_followed(file, concat("its pre_tokenizer's Split has the behavior ", member(split, "behavior").dump(),
                              ", or is inverted"));
}

/// Throws DataError where a text would not be cut into bytes by GPT-2's pattern.
void require_gpt2_words(const std::string& file, const json& pre_tokenizer) {
  std::vector<json> steps{pre_tokenizer};
  if (type_of(pre_tokenizer) == "Sequence") {
    const json list = member(pre_tokenizer, "pretokenizers");
    if (list.is_array()) steps = list.get<std::vector<json>>();
  }
  if (pre_tokenizer.is_null()) not_followed(file, "it has no pre_tokenizer");
  bool cut = false, bytes = false;
  for (const json& step : steps) {
    const std::string type = type_of(step);
    if (type == "Split" && !cut && !bytes) {
      require_gpt2_split(file, step);
      cut = true;
      continue;
    }
    if (type != "ByteLevel" || bytes) not_followed(file, "its pre_tokenizer is " + type);
    bytes = true;
    if (member(step, "add_prefix_space") != json(false))
      not_followed(file, "its pre_tokenizer puts a blank before a text (add_prefix_space)");
    if (member(step, "use_regex") == json(false) && !cut)
      not_followed(file, "its pre_tokenizer leaves texts whole (use_regex is false)");
    // Cutting words again by the same pattern changes nothing.
  }
  if (!bytes) not_followed(file, "its pre_tokenizer has no ByteLevel");
}

void require_plain_model(const std::string& file, const json& model) {
  // Files of 2020 name no type where there are merges.
  const bool untyped = member(model, "type").is_null() && member(model, "merges").is_array();
  if (!untyped && type_of(model) != "BPE") not_followed(file, "its model is " + type_of(model));
  for (const char* const mark : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const json value = member(model, mark); !value.is_null() && value != json(""))
      not_followed(
          file, concat("its model has the ", mark, " ", value.dump(), value == json("</w>") ? ", as CLIP's has" : ""));
  if (const json chance = member(model, "dropout"); !chance.is_null() && chance != json(0))
    not_followed(file, concat("its model leaves out merges at random, dropout ", chance.dump()));
  if (member(model, "ignore_merges") == json(true)) not_followed(file, "its model has ignore_merges");
}

/// Adds tokens that are found whole to {"token": number}.
std::map<std::string, std::int64_t> with_added_tokens(const std::string& file, const json& list, json& numbers,
                                                      std::array<std::vector<std::int32_t>, 2>& whole) {
  std::map<std::string, std::int64_t> added;
  for (const json& token : list) {
    const json content = member(token, "content"), id = member(token, "id");
    require<DataError>(content.is_string() && content != json("") && id.is_number_integer(), file, ": the added token ",
                       token.dump(), " has no content or no id. Fetch it again.");
    const auto text = content.get<std::string>();
    for (const char* const how : {"lstrip", "rstrip", "single_word"})
      if (member(token, how) == json(true)) not_followed(file, concat("the added token '", text, "' has ", how));
    require<DataError>(!numbers.contains(text) || numbers[text] == id, file, ": the added token '", text,
                       "' has the number ", id.dump(), ", and in the vocabulary another one. Fetch it again.");
    numbers[text] = id;
    added[text] = 0;
    // A number that is none is refused where all are.
    if (id.is_number_unsigned() && id.get<std::uint64_t>() < 1u << 31)
      whole[member(token, "normalized") == json(true)].push_back(id.get<std::int32_t>());
  }
  return added;
}

}  // namespace

json json_of_file(const std::string& path) {
  try {
    return json_from(read_text(path), path);
  } catch (const json::exception& e) {
    throw DataError(concat(path, " is not JSON: ", e.what(), ". Fetch it again."));
  }
}

TokenList token_list(const json& numbers, const std::map<std::string, std::int64_t>& added, const std::string& file) {
  require<DataError>(numbers.is_object() && !numbers.empty(), file,
                     " has no tokens: {\"token\": number, ...} is expected. Is it another file?");
  TokenList list;
  list.tokens.resize(numbers.size());
  for (const auto& [spelled, value] : numbers.items()) {
    const auto bytes = added.contains(spelled) ? std::optional(spelled) : read_in_alphabet(spelled);
    require<DataError>(bytes && !bytes->empty(), file, ": the token '", spelled,
                       "' is not spelled in GPT-2's alphabet of bytes. Is it another tokenizer's?");
    const std::int64_t number = value.is_number_integer() ? value.get<std::int64_t>() : -1;
    require<DataError>(number >= 0 && number < std::ssize(list.tokens), file, ": the token '", spelled,
                       "' has the number ", value.dump(), ", and ", grouped(list.tokens.size()),
                       " tokens have the numbers from 0 on. Fetch it again.");
    std::string& place = list.tokens[static_cast<std::size_t>(number)];
    require<DataError>(place.empty(), file, ": the tokens '", spelled_in_alphabet(place), "' and '", spelled,
                       "' have both the number ", number, ". Fetch it again.");
    place = *bytes;
  }
  return list;
}

TokenizerJson tokenizer_json(const std::string& path) {
  const json file = json_of_file(path), model = member(file, "model");
  require<DataError>(model.is_object(), path, " has no model: a tokenizer.json of `tokenizers` is expected. ",
                     kTakeGpt2s);
  require_plain_model(path, model);
  if (const json normalizer = member(file, "normalizer"); !normalizer.is_null())
    not_followed(path, "its normalizer is " + type_of(normalizer));
  require_gpt2_words(path, member(file, "pre_tokenizer"));

  TokenizerJson read;
  json numbers = member(model, "vocab");
  require<DataError>(numbers.is_object(), path, ": its model has no vocab. Fetch it again.");
  std::array<std::vector<std::int32_t>, 2> whole;
  const auto added = with_added_tokens(path, member(file, "added_tokens"), numbers, whole);
  read.list = token_list(numbers, added, path);
  read.list.whole = std::move(whole);
  const json merges = member(model, "merges");
  require<DataError>(merges.is_array(), path, ": its model has no list of merges. Fetch it again.");
  for (const json& merge : merges) {
    const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
    const std::string line = merge.is_string() ? merge.get<std::string>() : "";
    const std::size_t blank = line.find(' ');
    require<DataError>(pair || (blank != std::string::npos && line.find(' ', blank + 1) == std::string::npos), path,
                       ", merge ", grouped(read.merges.size() + 1), ": ", merge.dump(),
                       " is none: two tokens are expected. Fetch it again.");
    if (pair)
      read.merges.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
    else
      read.merges.emplace_back(line.substr(0, blank), line.substr(blank + 1));
  }
  return read;
}

std::string tokenizer_json_of(const TokenList& list, const std::vector<std::pair<std::int32_t, std::int32_t>>& merges) {
  using nlohmann::ordered_json;
  const auto token = [&](std::int32_t number) -> const std::string& {
    return list.tokens[static_cast<std::size_t>(number)];
  };
  std::map<std::int32_t, std::size_t> pass_of;  // of tokens that are found whole
  for (std::size_t pass = 0; pass < list.whole.size(); ++pass)
    for (const std::int32_t number : list.whole[pass]) pass_of[number] = pass;
  ordered_json added = ordered_json::array(), pairs = ordered_json::array();
  for (const auto& [number, pass] : pass_of)
    added.push_back({{"id", number},
                     {"content", token(number)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", pass == 1},
                     {"special", pass == 0}});
  ordered_json::object_t vocabulary;  // its own insert looks through all that is there
  for (std::int32_t i = 0; i < std::ssize(list.tokens); ++i)
    vocabulary.push_back({pass_of.contains(i) ? token(i) : spelled_in_alphabet(token(i)), i});
  for (const auto& [left, right] : merges)
    pairs.push_back({spelled_in_alphabet(token(left)), spelled_in_alphabet(token(right))});
  const ordered_json bytes{
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return ordered_json{{"version", "1.0"},
                      {"truncation", nullptr},
                      {"padding", nullptr},
                      {"added_tokens", added},
                      {"normalizer", nullptr},
                      {"pre_tokenizer", bytes},
                      {"post_processor", nullptr},
                      {"decoder", bytes},
                      {"model",
                       {{"type", "BPE"},
                        {"dropout", nullptr},
                        {"unk_token", nullptr},
                        {"continuing_subword_prefix", nullptr},
                        {"end_of_word_suffix", nullptr},
                        {"fuse_unk", false},
                        {"byte_fallback", false},
                        {"ignore_merges", false},
                        {"vocab", vocabulary},
                        {"merges", pairs}}}}
             .dump(1) +
         "\n";
}

}  // namespace laconic
