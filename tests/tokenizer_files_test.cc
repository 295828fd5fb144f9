// Tokenizers as other programs save them: what `tokenizers` and `tiktoken` make of texts (golden/tokenizer_files.py),
// and files that are damaged or say what is not followed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "data/bpe.h"
#include "error_of.h"
#include "temp_folder.h"

namespace laconic {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Numbers = std::vector<std::int32_t>;

const json& golden() {
  static const json read = json::parse(file_text(LACONIC_SOURCE "/tests/golden/tokenizer_files.json"));
  return read;
}

void write(const TempFolder& folder, const std::string& name, const std::string& text) {
  folder.write(name, {text.begin(), text.end()});
}

void write(const TempFolder& folder, const json& files) {
  for (const auto& [name, text] : files.items()) write(folder, name, text.get<std::string>());
}

std::string said_of(const std::string& path) {
  return error_of<DataError>([&] { BytePairs::load(path); });
}

TEST(TokenizerFiles, EncodeAsTheProgramsThatWroteThem) {
  for (const json& tokenizer : golden()["read"]) {
    const TempFolder folder;
    write(folder, tokenizer["files"]);
    const std::string name = tokenizer["files"].begin().key();
    SCOPED_TRACE(name);
    const BytePairs pairs = BytePairs::load(folder.path());
    for (const json& c : tokenizer["cases"]) {
      const auto text = c["text"].get<std::string>();
      EXPECT_EQ(pairs.encode(text), c["tokens"].get<Numbers>()) << text;
      EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
    }
    const TempFolder saved;
    pairs.save(saved.path());
    const BytePairs again = BytePairs::load(saved.path());
    for (const json& c : tokenizer["cases"])
      EXPECT_EQ(again.encode(c["text"].get<std::string>()), c["tokens"].get<Numbers>()) << c["text"];
    if (tokenizer["files"].size() == 1) {
      EXPECT_EQ(BytePairs::load(folder / name).encode("the cat"), pairs.encode("the cat"));
    }
  }
}

TEST(TokenizerFiles, ThatCutTextsOtherwiseAreRefusedByName) {
  for (const json& tokenizer : golden()["refused"]) {
    const TempFolder folder;
    write(folder, tokenizer["files"]);
    EXPECT_THAT(said_of(folder.path()), HasSubstr(tokenizer["said"].get<std::string>()));
    EXPECT_THAT(said_of(folder.path()), HasSubstr("Give a tokenizer with GPT-2's pattern"));
  }
}

TEST(TokenizerFiles, OfTiktokenHaveAnEndOfTextWhereNumbersLeaveItOut) {
  std::vector<std::int32_t> places;
  for (const json& tokenizer : golden()["read"]) {
    if (!tokenizer["files"].contains("small.tiktoken")) continue;
    const TempFolder folder;
    write(folder, tokenizer["files"]);
    const BytePairs pairs = BytePairs::load(folder.path());
    EXPECT_EQ(pairs.size(), 311);
    for (std::int32_t i = 0; i < pairs.size(); ++i)
      if (pairs.token(i) == "<|endoftext|>") places.push_back(i);
  }
  EXPECT_EQ(places, (std::vector<std::int32_t>{310, 300}));
}

TEST(TokenizerFiles, ATokenizerJsonBesideOtherFilesIsTheOneThatCounts) {
  const TempFolder folder;
  const json& read = golden()["read"];
  write(folder, read[3]["files"]);
  const Numbers before = BytePairs::load(folder.path()).encode("the");
  write(folder, read[0]["files"]);
  EXPECT_NE(BytePairs::load(folder.path()).encode("the"), before) << "its first token is <|endoftext|>";
  write(folder, golden()["refused"][1]["files"]);
  EXPECT_THAT(said_of(folder.path()), HasSubstr("Qwen's"));
}

class TokenizerJsonFile : public ::testing::Test {
 protected:
  /// What is said of the first golden file when `change` was made to it.
  template <class F>
  std::string said(F&& change) const {
    json file = json::parse(golden()["read"][0]["files"]["tokenizer.json"].get<std::string>());
    change(file);
    write(folder_, "tokenizer.json", file.dump());
    return said_of(folder_ / "tokenizer.json");
  }
  TempFolder folder_;
};

TEST_F(TokenizerJsonFile, SaysWhatIsNotFollowed) {
  EXPECT_EQ(said([](json&) {}), "");
  EXPECT_EQ(said([](json& f) { f["model"].erase("type"); }), "");  // as files of 2020
  EXPECT_THAT(said([](json& f) { f["normalizer"] = {{"type", "NFC"}}; }), HasSubstr("its normalizer is NFC"));
  EXPECT_THAT(said([](json& f) { f["pre_tokenizer"] = nullptr; }), HasSubstr("it has no pre_tokenizer"));
  EXPECT_THAT(said([](json& f) { f["pre_tokenizer"]["use_regex"] = false; }), HasSubstr("leaves texts whole"));
  EXPECT_THAT(said([](json& f) { f["pre_tokenizer"].erase("add_prefix_space"); }), HasSubstr("add_prefix_space"));
  EXPECT_THAT(said([](json& f) {
                f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", json::array()}};
              }),
              HasSubstr("has no ByteLevel"));
  EXPECT_THAT(said([](json& f) { f["model"]["dropout"] = 0.1; }), HasSubstr("dropout 0.1"));
  EXPECT_THAT(said([](json& f) { f["model"]["ignore_merges"] = true; }), HasSubstr("ignore_merges"));
  EXPECT_THAT(said([](json& f) { f["model"]["continuing_subword_prefix"] = "##"; }),
              HasSubstr("subword_prefix \"##\""));
  EXPECT_THAT(said([](json& f) { f["model"]["type"] = "Unigram"; }), HasSubstr("its model is Unigram"));
  EXPECT_THAT(said([](json& f) { f["added_tokens"][1]["lstrip"] = true; }), HasSubstr("'<|pad|>' has lstrip"));
}

TEST_F(TokenizerJsonFile, SaysWhatIsDamaged) {
  EXPECT_THAT(said([](json& f) { f = {{"version", "1.0"}}; }), HasSubstr("has no model"));
  EXPECT_THAT(said([](json& f) { f["model"].erase("vocab"); }), HasSubstr("has no vocab"));
  EXPECT_THAT(said([](json& f) { f["model"].erase("merges"); }), HasSubstr("has no list of merges"));
  EXPECT_THAT(said([](json& f) { f["model"]["vocab"].erase("!"); }), HasSubstr("have the numbers from 0 on"));
  EXPECT_THAT(said([](json& f) { f["model"]["merges"][2] = 7; }), HasSubstr("merge 3: 7 is none"));
  EXPECT_THAT(said([](json& f) { f["model"]["merges"][2] = "a b c"; }), HasSubstr("merge 3: \"a b c\" is none"));
  EXPECT_THAT(said([](json& f) { f["model"]["merges"][2] = {"a"}; }), HasSubstr("is none"));
  EXPECT_THAT(said([](json& f) { f["model"]["merges"][2] = {"q", "q"}; }), HasSubstr("merge 3: the token 'qq'"));
  EXPECT_THAT(said([](json& f) { f["model"]["merges"][2] = f["model"]["merges"][1]; }), HasSubstr("comes twice"));
  EXPECT_THAT(said([](json& f) { f["added_tokens"][1]["id"] = 4000000000; }), HasSubstr("has the number 4000000000"));
  EXPECT_THAT(said([](json& f) { f["added_tokens"][1]["id"] = "x"; }), HasSubstr("no content or no id"));
  EXPECT_THAT(said([](json& f) { f["added_tokens"][0]["id"] = 5; }), HasSubstr("and in the vocabulary another one"));
  EXPECT_THAT(said([](json& f) { f["added_tokens"][1]["content"] = " the"; }), HasSubstr("two tokens are the bytes"));
  write(folder_, "tokenizer.json", "{");
  EXPECT_THAT(said_of(folder_.path()), HasSubstr("is not JSON"));
}

TEST(TiktokenFile, SaysWhatIsDamaged) {
  const json& files = golden()["read"].back()["files"];
  const auto good = files["small.tiktoken"].get<std::string>();
  const TempFolder folder;
  const auto said = [&](const std::string& from, const std::string& to) {
    std::string bad = good;
    EXPECT_NE(bad.find(from), std::string::npos);
    bad.replace(bad.find(from), from.size(), to);
    write(folder, "x.tiktoken", bad);
    return said_of(folder / "x.tiktoken");
  };
  EXPECT_EQ(said("IQ== 0\n", "IQ== 0\r\n\n"), "");
  EXPECT_THAT(said("IQ== 0\n", "IQ=\xFF 0\n"), HasSubstr("line 1: 'IQ=\xFF 0' is no token in base 64"));
  EXPECT_THAT(said("IQ== 0\n", "IQ 0\n"), HasSubstr("line 1:"));
  EXPECT_THAT(said("IQ== 0\n", " 0\n"), HasSubstr("line 1:"));
  EXPECT_THAT(said("IQ== 0\n", "IQ==\n"), HasSubstr("line 1:"));
  EXPECT_THAT(said("IQ== 0\n", "IQ== -1\n"), HasSubstr("line 1:"));
  EXPECT_THAT(said("IQ== 0\n", "IQ== 9999999999\n"), HasSubstr("the number 9999999999 is too large for 310"));
  EXPECT_THAT(said("IQ== 0\n", "IQ== 1\n"), HasSubstr("the number 1 comes twice"));
  EXPECT_THAT(said("IQ== 0\n", ""), HasSubstr("the number 310 is too large for 309"));
  EXPECT_THAT(said("IQ== 0\n", "Ig== 0\n"), HasSubstr("two tokens are the bytes '\"'"));
  EXPECT_THAT(said("IQ== 0\n", "enF4eQ== 0\n"), HasSubstr("byte 33, '!', has no token"));
  write(folder, "x.tiktoken", good + "enF4eQ== 311\n");
  EXPECT_THAT(said_of(folder / "x.tiktoken"), HasSubstr("'zqxy' is not made of two that come before it"));
  write(folder, "x.tiktoken", "\n");
  EXPECT_THAT(said_of(folder / "x.tiktoken"), HasSubstr("has no tokens"));
}

TEST(TokenizerFiles, AreNamedWhereThereAreNone) {
  const TempFolder folder;
  EXPECT_THAT(said_of(folder.path()), HasSubstr("has no tokenizer: no tokenizer.json"));
  write(folder, "tokenizer.model", "x");
  EXPECT_THAT(said_of(folder.path()), HasSubstr("has a tokenizer.model, which is not followed"));
  EXPECT_THAT(said_of(folder / "tokenizer.model"), HasSubstr("is neither a tokenizer.json nor a .tiktoken"));
  EXPECT_THAT(said_of(folder / "nowhere"), HasSubstr("does not exist"));
  write(folder, "vocab.json", "{}");
  EXPECT_THAT(said_of(folder.path()), HasSubstr("has no tokens"));
  write(folder, "a.tiktoken", "");
  write(folder, "b.tiktoken", "");
  std::filesystem::remove(folder / "vocab.json");
  EXPECT_THAT(said_of(folder.path()), HasSubstr("has two vocabularies"));
}

}  // namespace
}  // namespace laconic
