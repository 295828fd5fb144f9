#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// What is to be done about a tokenizer that is not followed.
inline constexpr char kTakeGpt2s[] =
    "Give a tokenizer with GPT-2's pattern, or a file of token numbers as data (`tokens`).";

/// The tokens of a vocabulary as a file has them.
struct TokenList {
  std::vector<std::string> tokens;                   ///< their bytes, by number
  std::array<std::vector<std::int32_t>, 2> whole{};  ///< numbers of those that are found in a text before it is cut,
                                                     ///< in two passes
};

/// What a file says, as JSON.   throws DataError, naming the file
nlohmann::json json_of_file(const std::string& path);

/// The tokens of {"token": number, …}: those of `added` are spelled as they are, the others in GPT-2's alphabet.
/// throws DataError: no object, another spelling, numbers that are not 0 … size - 1, each once
TokenList token_list(const nlohmann::json& numbers, const std::map<std::string, std::int64_t>& added,
                     const std::string& file);

/// What a tokenizer.json of Hugging Face's `tokenizers` says, where its texts are cut as GPT-2's.
struct TokenizerJson {
  TokenList list;
  std::vector<std::pair<std::string, std::string>> merges;  ///< spelled in GPT-2's alphabet
};
/// throws DataError: damaged, or it has a model, a normalizer or a pre_tokenizer that is not followed, which is named
TokenizerJson tokenizer_json(const std::string& path);
/// The text of such a file.   merges : the numbers of both tokens of each pair
std::string tokenizer_json_of(const TokenList& list, const std::vector<std::pair<std::int32_t, std::int32_t>>& merges);

}  // namespace laconic
