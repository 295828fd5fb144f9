// Reading text: words, vocabulary, splits; and what is no text.
#include "data/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "core/base/error.h"
#include "core/base/random.h"
#include "data/synthetic.h"
#include "error_of.h"
#include "gzip.h"
#include "temp_folder.h"

namespace laconic {
namespace {

using ::testing::HasSubstr;

class Text : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    folder_.write(name, {content.begin(), content.end()});
    return folder_ / name;
  }
  std::string folder() const { return folder_.path(); }
  std::string error(const std::string& path) const {
    return error_of<DataError>([&] { load_text(path); });
  }
  TempFolder folder_;
};

std::string words_of(const TextDataset& data, const TokenSequence& part) {
  std::string text;
  for (std::int32_t w : part.numbers()) text += (text.empty() ? "" : " ") + data.vocabulary.word(w);
  return text;
}

TEST_F(Text, NumbersWordsByFirstAppearanceInTrain) {
  write("train.txt", "the cat  sat\n\nthe dog\tsat \r\n");
  write("valid.txt", "a cat\n");
  write("test.txt", "the bird sat");
  const TextDataset data = load_text(folder());
  EXPECT_EQ(words_of(data, data.train), "the cat sat <eos> <eos> the dog sat <eos>");
  EXPECT_EQ(data.train, (std::vector<std::int32_t>{0, 1, 2, 3, 3, 0, 4, 2, 3}));
  EXPECT_EQ(data.vocabulary.size(), 6);
  EXPECT_EQ(data.vocabulary.word(5), "<unk>");  // train has none
  EXPECT_EQ(words_of(data, data.valid), "<unk> cat <eos>");
  EXPECT_EQ(words_of(data, data.test), "the <unk> sat <eos>");  // the last line needs no end
  EXPECT_EQ(data.unseen, 2);
  EXPECT_EQ(data.vocabulary.find("bird"), std::nullopt);
  EXPECT_EQ(data.vocabulary.find("dog"), 4);
}

TEST_F(Text, ReadsUnknownWordsAsTrainsOwn) {
  write("ptb.train.txt", "<unk> x\n");
  write("ptb.valid.txt", "y\n");
  write("ptb.test.txt", "x z\n");
  const TextDataset data = load_text(folder());
  EXPECT_EQ(data.vocabulary.size(), 3);
  EXPECT_EQ(words_of(data, data.valid), "<unk> <eos>");
  EXPECT_EQ(words_of(data, data.test), "x <unk> <eos>");
}

TEST_F(Text, TakesTheNamesThatArchivesUse) {
  for (const std::string name : {"train.txt", "ptb.train.txt", "wiki.train.tokens", "train.en.txt"}) {
    SCOPED_TRACE(name);
    const TempFolder own;
    for (const std::string part : {"train", "valid", "test"}) {
      std::string file = name;
      file.replace(file.find("train"), 5, part);
      own.write(file, {'a', '\n'});
    }
    for (const char* other : {"README.txt", "train.md", "training.txt", "train", "x.train.txt."})
      own.write(other, {'a', ' ', 'a', '\n'});
    EXPECT_EQ(load_text(own.path()).train.size(), 2u);
  }
}

TEST_F(Text, TakesTheNamesThatOtherProgramsUse) {
  write("wiki.train.raw", "a\n");
  write("wiki.val.raw", "a b\n");
  write("wiki.test.raw", "a b c\n");
  EXPECT_EQ(load_text(folder()).valid.size(), 3u);
  write("validation.txt", "a b c d\n");
  EXPECT_EQ(load_text(folder()).valid.size(), 5u) << "what ends in txt is preferred";
  write("val.txt", "a b c d\n");
  EXPECT_THAT(error(folder()), HasSubstr("two files that could be the valid text, val.txt and validation.txt"));
  write("wiki.valid.raw", "a b c d e\n");
  EXPECT_EQ(load_text(folder()).valid.size(), 6u) << "and what is named valid before all";
  write("train.test.txt", "a\n");
  folder_.remove("wiki.train.raw"), folder_.remove("wiki.test.raw");
  EXPECT_THAT(error(folder()), HasSubstr("has the names of two parts"));
}

TEST_F(Text, IsNotWhatWasSavedInPlaceOfAFile) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 7\n";
  const auto said = [&](const std::string& name, const std::string& text) {
    return error_of<DataError>([&] { load_text(write(name, text), Tokens::parse("chars")); });
  };
  EXPECT_THAT(said("train.bin", pointer), HasSubstr("git lfs pull"));
  EXPECT_THAT(said("book.txt", pointer), HasSubstr("git lfs pull"));
  EXPECT_THAT(said("train.bin", "\n<!DOCTYPE html><html>404</html>"), HasSubstr("is a page of the web"));
  EXPECT_EQ(said("book.txt", "<html>a page about pages</html>"), "");
}

TEST_F(Text, SaysWhatAByteOfZeroMayBe) {
  std::string utf16;
  for (const char c : std::string("a text in UTF-16, of which a file is made\n")) utf16 += c, utf16 += '\0';
  for (const char* const tokens : {"words", "chars", "bpe:300"}) {
    SCOPED_TRACE(tokens);
    const auto said = [&](const std::string& text) {
      return error_of<DataError>([&] { load_text(write("book.txt", text), Tokens::parse(tokens)); });
    };
    EXPECT_THAT(said(utf16), HasSubstr("line 1: a byte 0, which no text has. Convert UTF-16"));
    EXPECT_THAT(said("a\nb\n" + utf16), HasSubstr("line 3: a byte 0"));
    EXPECT_THAT(said("a\nb\n" + utf16), HasSubstr("numbers of tokens, as nanoGPT's train.bin"));
    EXPECT_THAT(said("a\n\xFF\n" + utf16), HasSubstr("line 2: not UTF-8"));
  }
}

TEST_F(Text, ReadsGzip) {
  for (const std::string part : {"train", "valid", "test"}) {
    const std::string text = part + " x\n";
    folder_.write(part + ".txt.gz", gzip({text.begin(), text.end()}));
  }
  EXPECT_EQ(load_text(folder()).train.size(), 3u);
  write("train.txt", "unpacked beside its archive\n");
  EXPECT_EQ(load_text(folder()).train.size(), 5u);
}

TEST_F(Text, SplitsOneFileByLines) {
  std::ostringstream text;
  for (int i = 0; i < 40; ++i) text << "line " << i << "\n";
  const TextDataset data = load_text(write("book.txt", text.str()));
  EXPECT_EQ(data.train.size(), 36u * 3);
  EXPECT_EQ(data.valid.size(), 2u * 3);
  EXPECT_EQ(data.test.size(), 2u * 3);
  EXPECT_EQ(words_of(data, data.valid), "line <unk> <eos> line <unk> <eos>");
  EXPECT_EQ(data.vocabulary.size(), 36 + 3);  // line, <eos>, <unk>
  EXPECT_EQ(words_of(data, data.train).substr(0, 22), "line 0 <eos> line 1 <e");
}

TEST_F(Text, AgreesWithASlowReader) {
  // The reader goes through the file in pieces; this one has it whole.
  Random random(7, Purpose::test);
  std::string text = "\xEF\xBB\xBF";  // a byte order mark belongs to no word
  std::vector<std::string> expected;
  std::string line;
  while (text.size() < 2500000) {
    line.clear();
    const std::uint32_t words = random.below(12) == 0 ? 20000 : random.below(30);
    for (std::uint32_t w = 0; w < words; ++w) {
      line += std::string(1 + random.below(3), random.below(4) ? ' ' : '\t');
      const std::uint32_t length = 1 + random.below(9);
      for (std::uint32_t k = 0; k < length; ++k)
        line += random.below(9) ? std::string(1, static_cast<char>('a' + random.below(26))) : "é";
    }
    text += line + "\n";
    std::istringstream in(line);
    for (std::string w; in >> w;) expected.push_back(w);
    expected.push_back("<eos>");
  }
  write("train.txt", text);
  write("valid.txt", "x");
  write("test.txt", "x");
  const TextDataset data = load_text(folder());
  ASSERT_EQ(data.train.size(), expected.size());
  std::map<std::string, std::int32_t> numbers;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto number = numbers.emplace(expected[i], static_cast<std::int32_t>(numbers.size())).first->second;
    ASSERT_EQ(data.train[i], number) << i << " " << expected[i];
  }
}

TEST_F(Text, ReadsALineOfAMegabyte) {
  std::string line;
  while (line.size() < (1u << 20)) line += "word ";
  for (const char* part : {"train.txt", "valid.txt", "test.txt"}) write(part, line);
  EXPECT_EQ(load_text(folder()).train.size(), line.size() / 5 + 1);
}

TEST_F(Text, SaysWhatIsNoText) {
  EXPECT_THAT(error(folder_ / "nowhere"), HasSubstr("does not exist"));
  EXPECT_THAT(error(folder()), HasSubstr("has no train text"));
  write("train.txt", "a b\n");
  write("test.txt", "a b\n");
  EXPECT_THAT(error(folder()), HasSubstr("has no valid text"));
  write("valid.txt", "");
  EXPECT_THAT(error(folder()), HasSubstr("valid.txt is empty"));
  write("valid.txt", " \n\n");
  EXPECT_THAT(error(folder()), HasSubstr("valid.txt is empty"));
  write("valid.txt", "a\nb \xff c\n");
  EXPECT_THAT(error(folder()), HasSubstr("valid.txt, line 2: not UTF-8"));
  write("valid.txt", "a\n\n" + std::string(1 << 20, 'x') + "\n");
  EXPECT_THAT(error(folder()), HasSubstr("valid.txt, line 3: a word of more than 4,096 bytes"));
  write("valid.txt", "a\n");
  write("x.train.txt", "a b\n");
  EXPECT_THAT(error(folder()), HasSubstr("two files that could be the train text, train.txt and x.train.txt"));
  EXPECT_THAT(error(write("short.txt", "a\nb\n")), HasSubstr("has 2 lines"));
}

TEST_F(Text, AcceptsUtf8AndNothingElse) {
  const auto accepts = [&](const std::string& bytes) {
    std::string text;
    for (int i = 0; i < 20; ++i) text += "x " + bytes + "\n";
    return error(write("all.txt", text)).empty();
  };
  for (const char* good :
       {"z", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(accepts(good)) << good;
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80",
        "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xE2\x82z", "\xF0\x9F\x98"})
    EXPECT_FALSE(accepts(bad));
}

TEST_F(Text, FingerprintSeesEveryWord) {
  const auto of = [&](const std::string& train) {
    write("train.txt", train);
    return fingerprint(load_text(folder()));
  };
  write("valid.txt", "a");
  write("test.txt", "a");
  const auto first = of("a b c\n");
  EXPECT_EQ(of("a b c\n"), first);
  EXPECT_NE(of("a b d\n"), first);
  EXPECT_NE(of("a b c c\n"), first);
  EXPECT_NE(of("ab c c\n"), first);
}

TEST(TokensText, ReadsItsSpellings) {
  for (const std::string text : {"words", "chars", "bpe:256", "bpe:1000000", "bpe:folder", "bpe:./1000", "bpe:-5",
                                 "numbers", "numbers:2", "numbers:50257"})
    EXPECT_EQ(Tokens::parse(text).text(), text);
  EXPECT_EQ(Tokens::parse("bpe:1000").size, 1000);
  EXPECT_EQ(Tokens::parse("bpe:./1000").path, "./1000");
  EXPECT_EQ(Tokens::parse("numbers:50257").size, 50257);
  for (const char* bad : {"", "word", "characters", "bpe", "bpe:", "bpe:255", "bpe:1000001", "bpe:99999999999999999999",
                          "numbers:", "numbers:1", "numbers:1000001", "numbers:x", "numbersx"})
    EXPECT_THROW(Tokens::parse(bad), UsageError) << bad;
}

TEST_F(Text, CutsAFileIntoItsCharactersAsNanoGPTDoes) {
  const std::string text = "\xEF\xBB\xBFzb b\r\n\t\xC3\xA9" + std::string(10, 'a') + "\xF0\x9F\x98\x80 \xE2\x82\xAC";
  const TextDataset data = load_text(write("book.txt", text), Tokens::parse("chars"));  // 21 characters behind the mark
  EXPECT_THAT(data.vocabulary.size(), 10);
  std::string sorted;
  for (std::int32_t i = 0; i < 10; ++i) sorted += data.vocabulary.word(i);
  EXPECT_EQ(sorted, "\t\n\r abz\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(data.train, (std::vector<std::int32_t>{6, 5, 3, 5, 2, 1, 0, 7, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}));
  EXPECT_EQ(data.valid, (std::vector<std::int32_t>{9, 3, 8}));
  EXPECT_TRUE(data.test.empty());
  EXPECT_EQ(data.unseen, 0);
  EXPECT_EQ(data.decode(data.train.numbers()) + data.decode(data.valid.numbers()), text.substr(3));
  EXPECT_EQ(data.encode("za\n"), (std::vector<std::int32_t>{6, 4, 1}));
  EXPECT_THAT(error_of<DataError>([&] { data.encode("zoo"); }), HasSubstr("does not have the character 'o'"));
  EXPECT_THAT(error_of<DataError>([&] { data.encode("z\xC3"); }), HasSubstr("not UTF-8"));
  EXPECT_THAT(error_of<DataError>([&] { data.decode(std::vector<std::int32_t>{10}); }), HasSubstr("no token 10"));
  EXPECT_THAT(error_of<DataError>([&] { data.decode(std::vector<std::int32_t>{-1}); }), HasSubstr("no token -1"));
}

TEST_F(Text, CutsAFoldersThreeFilesIntoCharactersOfOneAlphabet) {
  write("train.txt", "ab\nab");
  write("valid.txt", "cab");
  write("test.txt", "\n\nb");
  const TextDataset data = load_text(folder(), Tokens::parse("chars"));
  EXPECT_EQ(data.vocabulary.size(), 4);
  EXPECT_EQ(data.train, (std::vector<std::int32_t>{1, 2, 0, 1, 2}));
  EXPECT_EQ(data.valid, (std::vector<std::int32_t>{3, 1, 2}));
  EXPECT_EQ(data.test, (std::vector<std::int32_t>{0, 0, 2}));
  EXPECT_EQ(data.name, folder());
}

TEST_F(Text, SaysWhatHasNoCharacters) {
  const auto said = [&](const std::string& path) {
    return error_of<DataError>([&] { load_text(path, Tokens::parse("chars")); });
  };
  EXPECT_THAT(said(folder_ / "nowhere"), HasSubstr("does not exist"));
  EXPECT_THAT(said(write("short.txt", std::string(19, 'a'))), HasSubstr("has 19 characters"));
  EXPECT_THAT(said(write("empty.txt", "")), HasSubstr("empty.txt is empty"));
  EXPECT_THAT(said(write("mark.txt", "\xEF\xBB\xBF")), HasSubstr("mark.txt is empty"));
  EXPECT_THAT(said(write("bytes.txt", "a\nb\n\n" + std::string(90, 'x') + "\xE2\x82")),
              HasSubstr("bytes.txt, line 4: not UTF-8"));
  EXPECT_THAT(said(folder()), HasSubstr("has no train text"));
  write("train.txt", "ab");
  write("valid.txt", "a");
  write("test.txt", "ab");
  EXPECT_THAT(said(folder()), HasSubstr("its valid text is one token"));
}

TEST_F(Text, ReadsCharactersOfAFileLongerThanAPiece) {
  std::string text = "\xEF\xBB\xBF";
  while (text.size() < (5u << 19)) text += "\xE2\x82\xAC";  // across the ends of pieces
  const TextDataset data = load_text(write("long.txt", text), Tokens::parse("chars"));
  EXPECT_EQ(data.train.size() + data.valid.size(), text.size() / 3 - 1);
  EXPECT_EQ(data.train.size(), (text.size() / 3 - 1) * 9 / 10);
  folder_.write("long.txt", gzip({text.begin(), text.end()}));
  EXPECT_EQ(fingerprint(load_text(folder_ / "long.txt", Tokens::parse("chars"))), fingerprint(data));
}

TEST_F(Text, WordsGoBackAndForth) {
  write("train.txt", "the cat sat\nthe dog\n");
  write("valid.txt", "a\n");
  write("test.txt", "a\n");
  const TextDataset data = load_text(folder());
  EXPECT_EQ(data.decode(data.train.numbers()), "the cat sat\nthe dog\n");
  EXPECT_EQ(data.encode("the cat sat\nthe dog\n"), data.train.numbers());
  EXPECT_EQ(data.decode(data.encode(" the \t bird\n\n  dog")), "the <unk>\n\ndog");
  EXPECT_EQ(data.encode(""), std::vector<std::int32_t>());
}

TEST(SyntheticText, IsALanguageThatCanBeLearned) {
  const TextDataset data = synthetic_text(20000, 50);
  EXPECT_EQ(data.train.size(), 20000u);
  EXPECT_EQ(data.valid.size(), 2000u);
  EXPECT_EQ(data.test.size(), 2000u);
  EXPECT_EQ(data.vocabulary.size(), 52);
  EXPECT_EQ(data.unseen, 0);
  EXPECT_EQ(fingerprint(data), fingerprint(synthetic_text(20000, 50)));
  EXPECT_NE(fingerprint(data), fingerprint(synthetic_text(20000, 51)));
  // A table of pairs, counted in train, foretells valid far better than the words' frequencies do.
  std::map<std::pair<std::int32_t, std::int32_t>, double> pairs;
  std::map<std::int32_t, double> words;
  for (std::size_t i = 0; i + 1 < data.train.size(); ++i)
    ++pairs[{data.train[i], data.train[i + 1]}], ++words[data.train[i]];
  double by_pairs = 0, by_words = 0;
  for (std::size_t i = 0; i + 1 < data.valid.size(); ++i) {
    const std::int32_t a = data.valid[i], b = data.valid[i + 1];
    by_pairs -= std::log((pairs[{a, b}] + 0.01) / (words[a] + 0.52));
    by_words -= std::log((words[b] + 1) / 20000);
  }
  const auto n = static_cast<double>(data.valid.size() - 1);
  EXPECT_LT(std::exp(by_pairs / n), 6);
  EXPECT_GT(std::exp(by_words / n), 15);
}

TEST(SyntheticText, SpellsEveryWordInItsOwnWay) {
  const TextDataset data = synthetic_text(1000000, 10000);
  EXPECT_GT(data.vocabulary.size(), 9900);
}

TEST(SyntheticText, ReadsItsSizesFromTheNameOfTheData) {
  EXPECT_EQ(synthetic_text_named("synthetic").train.size(), 100000u);
  EXPECT_EQ(synthetic_text_named("synthetic:1000,20").train.size(), 1000u);
  for (const char* bad :
       {"synthetic:", "synthetic:1000", "synthetic:1000,", "synthetic:1000,20x", "synthetic:99,20", "synthetic:1000,3",
        "synthetic:1000,10001", "synthetic:-5,20", "synthetic:99999999999999999999,20"})
    EXPECT_THROW(synthetic_text_named(bad), UsageError) << bad;
}

}  // namespace
}  // namespace laconic
