// Numbers of tokens in files: the same ones as NumPy, nanoGPT and llm.c write them (golden/token_files.py), what is no
// such file, and files beyond 2^32 numbers.
#include "data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/random.h"
#include "data/bpe.h"
#include "data/input_file.h"
#include "data/text.h"
#include "data/text_blocks.h"
#include "error_of.h"
#include "gzip.h"
#include "temp_folder.h"

namespace laconic {
namespace {

using ::testing::HasSubstr;
using Bytes = std::vector<std::uint8_t>;
using Numbers = std::vector<std::int32_t>;

Numbers small_tokens() {
  Numbers tokens;
  for (std::int32_t i = 0; i < 100; ++i) tokens.push_back(i * 37 % 96);
  return tokens;
}

/// The files of a kind by their names.
std::map<std::string, Bytes> golden(const std::string& kind) {
  std::map<std::string, Bytes> files;
  const auto all = nlohmann::json::parse(file_text(LACONIC_SOURCE "/tests/golden/token_files.json"));
  for (const auto& [name, digits] : all[kind].items()) {
    const auto text = digits.get<std::string>();
    for (std::size_t i = 0; i < text.size(); i += 2)
      files[name].push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return files;
}

template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
  Bytes bytes(numbers.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

class TokenFile : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const Bytes& bytes) const {
    folder_.write(name, bytes);
    return folder_ / name;
  }
  std::string said_of(const std::string& name, const Bytes& bytes, std::int64_t vocabulary = 0) const {
    const std::string path = write(name, bytes);
    return error_of<DataError>([&] { map_token_file(path, vocabulary).numbers(); });
  }
  TempFolder folder_;
};

TEST_F(TokenFile, HoldsTheSameTokensWhoeverWroteIt) {
  for (const auto& [name, bytes] : golden("small")) {
    SCOPED_TRACE(name);
    const std::string path = write(name, bytes);
    EXPECT_TRUE(is_token_file(path));
    for (const std::int64_t vocabulary : {0, 96, 65536}) {
      const TokenSequence tokens = map_token_file(path, vocabulary);
      EXPECT_EQ(tokens.numbers(), small_tokens());
      EXPECT_EQ(tokens.largest(), 95);
    }
    EXPECT_THAT(error_of<DataError>([&] { map_token_file(path, 95).numbers(); }),
                HasSubstr(name + ": token 83 (from 0) is 95, and the vocabulary has the numbers from 0 to 94"));
    EXPECT_NE(error_of<DataError>([&] { map_token_file(path, 95).largest(); }), "");
  }
}

TEST_F(TokenFile, HoldsMoreThan16BitsCanNumber) {
  Numbers expected = small_tokens();
  for (std::int32_t& token : expected) token = token * 1000 + 30000;
  for (const auto& [name, bytes] : golden("large")) {
    SCOPED_TRACE(name);
    EXPECT_EQ(map_token_file(write(name, bytes), 128256).numbers(), expected);
  }
  EXPECT_THAT(said_of("bare.bin", golden("large")["nanogpt32.bin"]), HasSubstr("Say how many tokens there are"));
}

TEST_F(TokenFile, OfFewDifferentTokensIsReadByItsHalves) {
  Numbers expected;
  std::vector<std::uint16_t> of16;
  std::vector<std::uint32_t> of32;
  Random random(3, Purpose::test);
  for (int i = 0; i < 100000; ++i) {
    expected.push_back(static_cast<std::int32_t>(random.below(4)));
    of16.push_back(static_cast<std::uint16_t>(expected.back()));
    of32.push_back(static_cast<std::uint32_t>(expected.back()));
  }
  EXPECT_EQ(map_token_file(write("16.bin", bytes_of(of16)), 0).numbers(), expected);
  EXPECT_EQ(map_token_file(write("32.bin", bytes_of(of32)), 0).numbers(), expected);
}

TEST_F(TokenFile, SaysWhatIsNone) {
  auto files = golden("small");
  EXPECT_THAT(said_of("a.bin", {}), HasSubstr("a.bin is empty"));
  EXPECT_THAT(said_of("a.bin", {'t', 'e', 'x', 't'}), HasSubstr("is text, not numbers of tokens"));
  EXPECT_THAT(said_of("a.bin", {1, 0, 2}), HasSubstr("has 3 bytes, no whole number of tokens of 2 bytes"));
  EXPECT_THAT(said_of("a.bin", gzip({1, 2, 3})), HasSubstr("is compressed"));
  EXPECT_THAT(said_of("a.bin", {'P', 'K', 3, 4, 0, 0}), HasSubstr("is compressed"));
  EXPECT_THAT(said_of("a.bin", bytes_of<std::int32_t>({20240326, 3, 0})),
              HasSubstr("20240326, that is no row of tokens"));
  for (const char* const name : {"gpt2.bin", "llama3.bin"}) {
    Bytes cut = files[name];
    cut.pop_back();
    EXPECT_THAT(said_of(name, cut), HasSubstr("100 tokens as llm.c writes them have"));
    Bytes newer = files[name];
    newer[4] = 9;
    EXPECT_THAT(said_of(name, newer), HasSubstr("of version 9"));
    Bytes more = files[name];
    more[8] = more[9] = more[10] = more[11] = 0xFF;
    EXPECT_THAT(said_of(name, more), HasSubstr("and 4,294,967,295 tokens as llm.c writes them"));
    cut.resize(7);
    EXPECT_NE(said_of(name, cut), "");
  }
  Bytes npy = files["u2.npy"];
  npy.pop_back();
  EXPECT_NE(said_of("cut.npy", npy), "");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text(files["u2.npy"].begin(), files["u2.npy"].end());
    EXPECT_NE(text.find(from), std::string::npos);
    text.replace(text.find(from), from.size(), to);
    return said_of("x.npy", {text.begin(), text.end()});
  };
  EXPECT_THAT(with("<u2", ">u2"), HasSubstr("holds >u2, not tokens of u2, u4, i4 or i8"));
  EXPECT_THAT(with("<u2", "<f2"), HasSubstr("holds <f2"));
  EXPECT_THAT(with("(100,), ", "(10,10),"), HasSubstr("has 2 dimensions, and tokens stand in a row"));
}

TEST_F(TokenFile, NamesNegativeNumbers) {
  auto bytes = golden("small")["i4.npy"];
  bytes[bytes.size() - 4 * 100 + 4 * 17 + 3] = 0xFF;
  EXPECT_THAT(said_of("x.npy", bytes), HasSubstr("token 17 (from 0) is -16777163,"));
}

TEST_F(TokenFile, IsDataInPartsOrAlone) {
  auto files = golden("small");
  write("run/shakespeare_train.bin", files["gpt2.bin"]);
  write("run/shakespeare_val.npy", files["i8.npy"]);
  write("run/meta.pkl", {0x80, 4});
  EXPECT_TRUE(has_token_numbers(folder_ / "run"));
  const TextDataset data = load_text(folder_ / "run", Tokens::parse("numbers"));
  EXPECT_EQ(data.train, small_tokens());
  EXPECT_EQ(data.valid, small_tokens());
  EXPECT_TRUE(data.test.empty());
  EXPECT_EQ(data.vocabulary.size(), 96);
  EXPECT_THAT(data.note, HasSubstr("96 tokens, by the largest number"));
  EXPECT_THAT(data.note, HasSubstr("meta.pkl, a pickle of Python, is not read"));
  EXPECT_EQ(data.decode(Numbers{5, 95, 0}), "5 95 0");
  EXPECT_EQ(data.encode("5 95\n0"), (Numbers{5, 95, 0}));
  EXPECT_THAT(error_of<DataError>([&] { data.encode("96"); }), HasSubstr("neither '96'"));

  const TextDataset alone = load_text(folder_ / "run/shakespeare_train.bin", Tokens::parse("numbers:200"));
  EXPECT_EQ(alone.train.size(), 90u);
  const Numbers all = small_tokens();
  EXPECT_EQ(alone.valid, Numbers(all.begin() + 90, all.end()));
  EXPECT_EQ(alone.vocabulary.size(), 200);
  EXPECT_NE(fingerprint(alone), fingerprint(data));
  const TextDataset wrong = load_text(folder_ / "run", Tokens::parse("numbers:80"));
  EXPECT_THAT(error_of<DataError>([&] { wrong.valid.numbers(); }), HasSubstr("token 5 (from 0) is 89"));
}

TEST_F(TokenFile, ATextBesideItIsWhatIsRead) {
  for (const char* const part : {"train", "valid", "test"}) write(std::string(part) + ".txt", {'a', ' ', 'b', '\n'});
  write("train.bin", golden("small")["u2.npy"]);
  EXPECT_FALSE(has_token_numbers(folder_.path()));
  EXPECT_FALSE(has_token_numbers(folder_ / "nowhere"));
  EXPECT_FALSE(has_token_numbers(write("text.bin", {'a', '\n', 0xC3})));
  EXPECT_TRUE(has_token_numbers(folder_ / "train.bin"));
}

TEST_F(TokenFile, HasTheTokensOfATokenizer) {
  write("text/train.txt", {'a', 'b', 'a', 'b'});
  write("text/valid.txt", {'b', 'a'});
  write("text/test.txt", {'a', 'b', 'c'});
  load_text(folder_ / "text", Tokens::parse("bpe:257")).pairs->save(folder_ / "pairs");
  std::vector<std::uint16_t> numbers{256, 256, 66, 64, 65, 66, 256, 0, 1, 2};
  numbers.insert(numbers.end(), {2, 2, 2, 2, 2, 2, 2, 2, 64, 65});
  const std::string path = write("train.bin", bytes_of(numbers));
  const TextDataset data = load_text(path, Tokens::parse("bpe:" + (folder_ / "pairs")));
  EXPECT_EQ(data.vocabulary.size(), 257);
  EXPECT_EQ(data.decode(data.train.numbers()), "ababcabcab!\"#########");
  EXPECT_EQ(data.decode(data.valid.numbers()), "ab");
  EXPECT_EQ(data.encode("ab"), Numbers{256});
  EXPECT_THAT(error_of<UsageError>([&] { load_text(path, Tokens::parse("bpe:300")); }), HasSubstr("learned from text"));
}

TEST_F(TokenFile, OfSixteenGigabytesIsReadWhereItIsAsked) {
  // Sparse: it has a few numbers, and zeros between.
  const std::string path = folder_ / "train.bin";
  constexpr std::uint64_t kTokens = 8'000'000'000, kCut = kTokens / 10 * 9, kTrain = 5'000'000'000,
                          kValid = 7'654'321'000;
  std::ofstream(path, std::ios::binary).write("\1\0\2\0", 4);
  std::filesystem::resize_file(path, 2 * kTokens);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  for (const std::uint64_t place : {kTrain, kValid})
    file.seekp(static_cast<std::streamoff>(2 * place)).write("\x34\x12", 2).flush();
  const TextDataset data = load_text(path, Tokens::parse("numbers:50257"));
  ASSERT_EQ(data.train.size(), kCut);
  ASSERT_EQ(data.valid.size(), kTokens - kCut);
  EXPECT_EQ(data.valid[kValid - kCut], 0x1234);
  const auto block = TextBlocks::of(data.train, {.batch = 1, .length = 8}, {kTrain / 8}).batch(0);
  EXPECT_EQ(block.x.data<std::int64_t>()[0], 0x1234);
  const auto training = TextBlocks::training(data.train, {.batch = 64, .length = 8}, 1);
  EXPECT_EQ(training.batches(), (static_cast<std::int64_t>(kCut) - 1) / 8 / 64);
  const TextDataset small = load_text(path, Tokens::parse("numbers:4660"));
  EXPECT_EQ(small.train[kTrain - 1], 0);
  EXPECT_THAT(error_of<DataError>([&] { small.train[kTrain]; }), HasSubstr("token 5,000,000,000 (from 0) is 4660"));
}

TEST_F(TokenFile, ThatBecameShorterIsRefused) {
  write("train.bin", Bytes(200'000, 0));
  const TokenSequence tokens = map_token_file(folder_ / "train.bin", 300);
  std::int64_t read[2];
  tokens.read(99'998, 2, read);
  std::filesystem::resize_file(folder_ / "train.bin", 100);
  const std::string said = error_of<DataError>([&] { tokens.read(99'998, 2, read); });
  EXPECT_THAT(said, HasSubstr("is no file of 200,000 bytes any more"));
  EXPECT_NE(error_of<DataError>([&] { tokens.largest(); }), "");
  Digest digest;
  EXPECT_NE(error_of<DataError>([&] { tokens.add_to(digest); }), "");
}

TEST(TokenSequence, ReadsTheLastNumberBehindItsEnd) {
  const TokenSequence tokens{4, 5, 6, 7};
  std::int64_t got[4];
  tokens.read(2, 4, got);
  EXPECT_THAT(got, ::testing::ElementsAre(6, 7, 7, 7));
  tokens.part(1, 3).read(0, 4, got);
  EXPECT_THAT(got, ::testing::ElementsAre(5, 6, 6, 6));
  EXPECT_EQ(TokenSequence().largest(), -1);
  EXPECT_EQ(tokens.largest(), 7);
}

TEST_F(TokenFile, FingerprintSeesItsEndsAndItsSize) {
  const auto of = [&](const std::vector<std::uint16_t>& numbers) {
    Digest digest;
    map_token_file(write("x.bin", bytes_of(numbers)), 100).add_to(digest);
    return digest.value();
  };
  std::vector<std::uint16_t> numbers(3 << 20, 7);
  const auto first = of(numbers);
  EXPECT_EQ(of(numbers), first);
  numbers.back() = 8;
  EXPECT_NE(of(numbers), first);
  numbers.back() = 7, numbers.front() = 8;
  EXPECT_NE(of(numbers), first);
  numbers.front() = 7, numbers.push_back(7);
  EXPECT_NE(of(numbers), first);
}

}  // namespace
}  // namespace laconic
