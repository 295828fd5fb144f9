// Byte pair encoding: against a slow obvious trainer and encoder, against Hugging Face's `tokenizers` (golden/bpe.py),
// and with files that are damaged.
#include "data/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/base/error.h"
#include "core/base/random.h"
#include "data/text.h"
#include "error_of.h"
#include "fuzz.h"
#include "temp_folder.h"
#include "tests/patterns.h"

namespace laconic {
namespace {

using ::testing::HasSubstr;
using Numbers = std::vector<std::int32_t>;

std::vector<std::string> words_in(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < text.size(); i += words.back().size())
    words.push_back(text.substr(i, word_bytes(text, i)));
  return words;
}

/// A vocabulary as lists of bytes, trained and used by looking at everything again and again.
struct SlowPairs {
  std::vector<std::string> tokens;
  std::vector<std::pair<std::string, std::string>> merges;

  static std::vector<std::string> bytes_of(const std::string& word) {
    std::vector<std::string> bytes;
    for (const char c : word) bytes.emplace_back(1, c);
    return bytes;
  }
  static void join(std::vector<std::string>& word, std::size_t i) {
    word[i] += word[i + 1];
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
  }
  std::ptrdiff_t number(const std::string& token) const {
    return std::find(tokens.begin(), tokens.end(), token) - tokens.begin();
  }

  SlowPairs(const std::string& text, std::size_t size) {
    for (int part = 0; part < 2; ++part)  // GPT-2's order: what can be printed first
      for (int b = 0; b < 256; ++b)
        if (((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174) == (part == 0))
          tokens.emplace_back(1, static_cast<char>(b));
    std::vector<std::vector<std::string>> words;
    for (const std::string& word : words_in(text)) words.push_back(bytes_of(word));
    while (tokens.size() < size) {
      std::map<std::pair<std::ptrdiff_t, std::ptrdiff_t>, int> times;
      for (const auto& word : words)
        for (std::size_t i = 0; i + 1 < word.size(); ++i) ++times[{number(word[i]), number(word[i + 1])}];
      auto best = times.begin();  // the map is sorted: the first of equals stays
      for (auto it = times.begin(); it != times.end(); ++it)
        if (it->second > best->second) best = it;
      if (best == times.end() || best->second < 2) break;
      const std::string left = tokens[static_cast<std::size_t>(best->first.first)];
      const std::string right = tokens[static_cast<std::size_t>(best->first.second)];
      merges.emplace_back(left, right);
      if (number(left + right) == std::ssize(tokens)) tokens.push_back(left + right);
      for (auto& word : words)
        for (std::size_t i = 0; i + 1 < word.size(); ++i)
          if (word[i] == left && word[i + 1] == right) join(word, i);
    }
  }

  Numbers encode(const std::string& text) const {
    Numbers numbers;
    for (const std::string& whole : words_in(text)) {
      std::vector<std::string> word = bytes_of(whole);
      for (bool found = true; found;) {
        found = false;
        for (const auto& [left, right] : merges) {
          for (std::size_t i = 0; i + 1 < word.size() && !found; ++i)
            if (word[i] == left && word[i + 1] == right) join(word, i), found = true;
          if (found) break;
        }
      }
      for (const std::string& token : word) numbers.push_back(static_cast<std::int32_t>(number(token)));
    }
    return numbers;
  }
};

std::string random_text(Random& random, std::uint32_t most, const std::string& letters) {
  std::string text;
  for (std::uint32_t n = random.below(most + 1); n > 0; --n)
    text += letters.empty() ? static_cast<char>(random.bits())
                            : letters[random.below(static_cast<std::uint32_t>(letters.size()))];
  return text;
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Bpe, LearnsAndEncodesAsTokenizersDoes) {
  const auto golden = nlohmann::json::parse(content_of(LACONIC_SOURCE "/tests/golden/bpe.json"));
  const auto pairs = BytePairs::train(golden["train"].get<std::string>(), golden["size"].get<std::int32_t>());
  const TempFolder folder;
  pairs.save(folder.path());
  EXPECT_EQ(nlohmann::json::parse(content_of(folder / "vocab.json")), golden["vocabulary"]);
  std::string merges = "#version: 0.2\n";
  for (const auto& merge : golden["merges"]) merges += merge.get<std::string>() + "\n";
  EXPECT_EQ(content_of(folder / "merges.txt"), merges);
  for (const auto& c : golden["cases"]) {
    const auto text = c["text"].get<std::string>();
    EXPECT_EQ(words_in(text), c["words"].get<std::vector<std::string>>());
    EXPECT_EQ(pairs.encode(text), c["tokens"].get<Numbers>()) << text;
    EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
  }
}

TEST(Bpe, CutsWordsAsThePatternSays) {
  const std::string pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+)";
  fuzz(300, [&](Random& random) {
    const std::string text = random_text(random, 40, "''strevmld  \n\tZ09,.");
    std::vector<std::string> expected;
    for (const auto& word : found_in(text, pattern)) expected.push_back(word[0]);
    EXPECT_EQ(words_in(text), expected) << text;
  });
}

TEST(Bpe, LearnsWhatASlowTrainerLearns) {
  fuzz(30, [](Random& random) {
    const std::string letters = random.below(2) ? "ab " : "aabcd \n'";
    const std::string text = random_text(random, 150, letters);
    const std::int32_t size = 256 + static_cast<std::int32_t>(random.below(30));
    const auto pairs = BytePairs::train(text, size);
    const SlowPairs slow(text, static_cast<std::size_t>(size));
    ASSERT_EQ(pairs.size(), std::ssize(slow.tokens)) << text;
    for (std::int32_t i = 0; i < pairs.size(); ++i)
      EXPECT_EQ(pairs.token(i), slow.tokens[static_cast<std::size_t>(i)]) << text;
    EXPECT_EQ(pairs.merges(), slow.merges.size());
    for (int k = 0; k < 5; ++k) {
      const std::string other = random_text(random, 60, letters);
      EXPECT_EQ(pairs.encode(other), slow.encode(other)) << text << "\n" << other;
    }
  });
}

TEST(Bpe, AnyBytesComeBack) {
  fuzz(100, [](Random& random) {
    const std::string text = random_text(random, 3000, random.below(2) ? "" : "\x80\xE2\x82\xAC ab\xF0\x9F'");
    const auto pairs = BytePairs::train(text, 300);
    const std::string other = random_text(random, 300, "") + text.substr(0, 100);
    EXPECT_EQ(pairs.decode(pairs.encode(text)), text);
    EXPECT_EQ(pairs.decode(pairs.encode(other)), other);
  });
}

TEST(Bpe, ALongWordIsEncodedToo) {
  Random random(5, Purpose::test);
  std::string word;
  while (word.size() < 50000) word += "abcd"[random.below(4)];
  const auto pairs = BytePairs::train(word, 400);
  EXPECT_EQ(pairs.size(), 400);
  const Numbers tokens = pairs.encode(word);
  EXPECT_LT(tokens.size(), word.size() / 2);
  EXPECT_EQ(pairs.decode(tokens), word);
}

TEST(Bpe, EndsEarlyWhenNoPairComesTwice) {
  EXPECT_EQ(BytePairs::train("", 1000).size(), 256);
  EXPECT_EQ(BytePairs::train("abcd", 1000).size(), 256);
  EXPECT_EQ(BytePairs::train("abc,abc", 1000).size(), 258);  // ab, abc
  EXPECT_THROW(BytePairs::train("abc", 255), UsageError);
}

TEST(Bpe, RefusesNumbersThatThereAreNot) {
  const auto pairs = BytePairs::train("", 256);
  EXPECT_THAT(error_of<DataError>([&] { pairs.decode(Numbers{0, 256}); }), HasSubstr("no token 256"));
  EXPECT_THAT(error_of<DataError>([&] { pairs.decode(Numbers{-1}); }), HasSubstr("no token -1"));
}

class BpeFiles : public ::testing::Test {
 protected:
  BpeFiles() {
    BytePairs::train("the cat, the \"cat\\", 260).save(folder_ / "deep/er");
    std::filesystem::remove(file("tokenizer.json"));  // which would be taken before the others
  }
  std::string folder() const { return folder_ / "deep/er"; }
  std::string file(const std::string& name) const { return folder() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    folder_.write("deep/er/" + name, {text.begin(), text.end()});
  }
  /// What is said when `from`, which the file has, is `to`.
  std::string said_with(const std::string& name, const std::string& from, const std::string& to) const {
    const std::string good = content_of(file(name));
    EXPECT_NE(good.find(from), std::string::npos);
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    write(name, bad);
    const std::string said = error_of<DataError>([&] { BytePairs::load(folder()); });
    write(name, good);
    EXPECT_THAT(said, HasSubstr(file(name)));
    return said;
  }
  TempFolder folder_;
};

TEST_F(BpeFiles, GoOutAndIn) {
  const auto pairs = BytePairs::load(folder());
  EXPECT_EQ(pairs.size(), 260);
  EXPECT_EQ(pairs.token(0), "!");
  EXPECT_EQ(pairs.token(220), " ");
  const std::string merges = content_of(file("merges.txt")), vocabulary = content_of(file("vocab.json"));
  EXPECT_EQ(merges, "#version: 0.2\na t\nc at\nh e\nt he\n");
  pairs.save(folder());
  EXPECT_EQ(content_of(file("merges.txt")), merges);
  EXPECT_EQ(content_of(file("vocab.json")), vocabulary);
  EXPECT_EQ(BytePairs::load(file("tokenizer.json")).encode("the cat"), pairs.encode("the cat"));
  EXPECT_EQ(pairs.encode("the cat"), (Numbers{259, 220, 257}));
  folder_.write("file", {});
  EXPECT_THAT(error_of<DataError>([&] { pairs.save(folder_ / "file/x"); }), HasSubstr("cannot be made"));
}

TEST_F(BpeFiles, MayHaveTokensThatNoMergeMakesAndMergesThatMakeTheSame) {
  std::string vocabulary = content_of(file("vocab.json"));
  vocabulary.replace(vocabulary.rfind('}'), 1, R"(,"ab":260,"bc":261,"abc":262,"<|endoftext|>":263})");
  write("vocab.json", vocabulary);
  write("merges.txt", "b c\r\na bc\r\na b\r\nab c\r\n\r\n");  // without the first line, from Windows
  const auto pairs = BytePairs::load(folder());
  EXPECT_EQ(pairs.merges(), 4u);
  EXPECT_EQ(pairs.encode("abc ab"), (Numbers{262, 220, 260}));
  EXPECT_EQ(pairs.token(263), "<|endoftext|>");
  EXPECT_EQ(pairs.decode(pairs.encode("<|endoftext|>")), "<|endoftext|>");
  EXPECT_EQ(pairs.encode("<|endoftext|>").size(), 13u);
}

TEST_F(BpeFiles, MayHaveNoTokensBesideThem) {
  write("added_tokens.json", R"({"!": 0})");
  EXPECT_EQ(BytePairs::load(folder()).size(), 260);
  write("added_tokens.json", R"({"<|user|>": 260})");
  EXPECT_THAT(error_of<DataError>([&] { BytePairs::load(folder()); }), HasSubstr("the token '<|user|>' is beside"));
}

TEST_F(BpeFiles, SayWhatIsWrongWithThem) {
  EXPECT_THAT(said_with("vocab.json", "}\n", "\n"), HasSubstr("is not JSON"));
  EXPECT_THAT(said_with("vocab.json", "{", std::string(100, '[')), HasSubstr("nests more than"));
  EXPECT_THAT(said_with("vocab.json", ": 7,", ": -7,"), HasSubstr("has the number -7"));
  EXPECT_THAT(said_with("vocab.json", ": 7,", ": 7.5,"), HasSubstr("has the number 7.5"));
  EXPECT_THAT(said_with("vocab.json", ": 7,", ": \"7\","), HasSubstr("has the number \"7\""));
  EXPECT_THAT(said_with("vocab.json", ": 7,", ": 260,"), HasSubstr("has the number 260, and 260 tokens"));
  EXPECT_THAT(said_with("vocab.json", ": 7,", ": 18446744073709551615,"), HasSubstr("has the number 1844"));
  EXPECT_THAT(said_with("vocab.json", ": 7,", ": 8,"), HasSubstr("have both the number 8"));
  EXPECT_THAT(said_with("vocab.json", "\"(\"", "\"((\""), HasSubstr("byte 40, '(', has no token"));
  EXPECT_THAT(said_with("vocab.json", "\"(\"", "\"( (\""), HasSubstr("not spelled in GPT-2's alphabet"));
  EXPECT_THAT(said_with("vocab.json", "\"(\"", "\"\""), HasSubstr("not spelled in GPT-2's alphabet"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", "cat\n"), HasSubstr("line 3: 'cat' is no merge"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", "c a t\n"), HasSubstr("line 3: 'c a t' is no merge"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", "\n"), HasSubstr("line 3: '' is no merge"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", "x at\n"), HasSubstr("line 3: the token 'xat' is not in"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", "c xy\n"), HasSubstr("line 3: the token 'xy' is not in"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", "c \xFF\n"), HasSubstr("line 3: the token"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", " at\n"), HasSubstr("line 3: the token '' is not in"));
  EXPECT_THAT(said_with("merges.txt", "c at\n", "a t\n"), HasSubstr("line 3: 'a t' comes twice"));
  write("vocab.json", "{}");
  EXPECT_THAT(error_of<DataError>([&] { BytePairs::load(folder()); }), HasSubstr("has no tokens"));
  write("vocab.json", "[1]");
  EXPECT_THAT(error_of<DataError>([&] { BytePairs::load(folder()); }), HasSubstr("has no tokens"));
  EXPECT_THAT(error_of<DataError>([&] { BytePairs::load(folder_ / "nowhere"); }),
              HasSubstr("nowhere does not exist"));
}

TEST(BpeText, IsTrainedOnTheTrainingPartAlone) {
  const TempFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    folder.write(name, {text.begin(), text.end()});
  };
  write("book.txt", "the cat, the hat, the bat, the rat, the mat,\nzqzqzq");  // 51 characters, 45 and 6
  const TextDataset data = load_text(folder / "book.txt", Tokens::parse("bpe:1000"));
  ASSERT_NE(data.pairs, nullptr);
  EXPECT_EQ(data.vocabulary.size(), data.pairs->size());
  EXPECT_TRUE(data.vocabulary.find("the").has_value());
  EXPECT_FALSE(data.vocabulary.find("zq").has_value());
  EXPECT_EQ(data.decode(data.train.numbers()) + data.decode(data.valid.numbers()), content_of(folder / "book.txt"));
  EXPECT_TRUE(data.test.empty());
  EXPECT_EQ(data.unseen, 0);
  EXPECT_LT(data.train.size(), 30u);
  EXPECT_EQ(data.encode("the"), Numbers{*data.vocabulary.find("the")});
  EXPECT_EQ(data.decode(data.encode("any \xFF")), "any \xFF");

  // Three files, and a vocabulary that is read.
  data.pairs->save(folder / "vocabulary");
  write("text/train.txt", "zqzqzq zqzqzq");
  write("text/valid.txt", "the cat");
  write("text/test.txt", "the rat");
  const TextDataset read = load_text(folder / "text", Tokens::parse("bpe:" + (folder / "vocabulary")));
  EXPECT_EQ(read.vocabulary.size(), data.vocabulary.size());
  EXPECT_EQ(read.train.size(), 13u);
  EXPECT_EQ(read.valid, data.encode("the cat"));
  EXPECT_EQ(read.test, data.encode("the rat"));
  EXPECT_EQ(read.tokens.text(), "bpe:" + (folder / "vocabulary"));
  const TextDataset trained = load_text(folder / "text", Tokens::parse("bpe:300"));
  EXPECT_TRUE(trained.vocabulary.find("zq").has_value());
  EXPECT_FALSE(trained.vocabulary.find("th").has_value());
  write("text/valid.txt", "zq");
  EXPECT_THAT(error_of<DataError>([&] { load_text(folder / "text", Tokens::parse("bpe:300")); }),
              HasSubstr("its valid text is one token"));
}

}  // namespace
}  // namespace laconic
