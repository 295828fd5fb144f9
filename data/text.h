#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace laconic {

/// Words by number, in the order in which they were added.
class Vocabulary {
 public:
  static constexpr std::string_view kEnd = "<eos>";      ///< stands behind every line's words
  static constexpr std::string_view kUnknown = "<unk>";  ///< the word that stands for all that the vocabulary lacks

  Vocabulary() = default;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;

  std::int32_t add(std::string_view word);  ///< its number, a new one if it is new
  std::optional<std::int32_t> find(std::string_view word) const;
  const std::string& word(std::int32_t number) const { return *words_[static_cast<std::size_t>(number)]; }
  std::int32_t size() const { return static_cast<std::int32_t>(words_.size()); }
  void shorten(std::int32_t size);  ///< keeps the first `size` words

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> numbers_;
  std::vector<const std::string*> words_;  // into numbers_, whose nodes do not move
};

/// What a text is cut into.
///   words        what stands between ASCII blanks, and <eos> behind each line
///   characters   its code points; blanks and line breaks are characters too
///   pairs        byte pair encoding (data/bpe.h)
struct Tokens {
  enum class Kind { words, characters, pairs };
  Kind kind = Kind::words;
  std::int32_t size = 0;  ///< pairs: the tokens of a vocabulary to train, 256 to 1,000,000; 0: read one
  std::string folder{};   ///< pairs that are read: where vocab.json and merges.txt are

  /// "words", "chars", "bpe:SIZE" or "bpe:FOLDER". A folder whose name is a number is written as bpe:./NUMBER.
  /// throws UsageError
  static Tokens parse(const std::string& text);
  std::string text() const;  ///< the text that parse() reads
};

class BytePairs;

/// A text in three parts, as numbers of tokens. Never changed once read, so that any number of workers share one.
///   vocabulary   words: of train in the order of their first appearance, <eos> where the first line ends; <unk>
///                is the last one if train has none
///                characters: of all parts, sorted by code point, each in UTF-8
///                pairs: each token's bytes, which need not be UTF-8
struct TextDataset {
  std::string name;  ///< the folder or file, or "synthetic"
  Tokens tokens{};
  Vocabulary vocabulary;
  std::shared_ptr<const BytePairs> pairs{};  ///< the pairs, if tokens are pairs
  std::vector<std::int32_t> train, valid, test;
  std::int64_t unseen = 0;  ///< words of valid and test that train does not have, read as <unk>

  /// Words of valid and test from number `known` on, which train does not have, become <unk>.
  void close_vocabulary(std::int32_t known);

  /// A text as numbers of tokens. Words: <eos> stands for each line break, and for nothing else; a word that is not in
  /// the vocabulary is <unk>. Pairs take any bytes.
  /// throws DataError: a character is not in the vocabulary, or is not UTF-8
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The text that these tokens are. Characters and pairs: decode(encode(text)) is the text, byte for byte. Words: one
  /// blank between two words of a line, a line break for <eos>.
  /// throws DataError: a number is not in the vocabulary
  std::string decode(std::span<const std::int32_t> tokens) const;
};

/// Reads UTF-8 text, plain or gzip, and cuts it into tokens.
///   a folder   one file each for train, valid and test: its name, cut at dots and without ".gz", has that word among
///              its parts and ends in txt or tokens, as ptb.train.txt, train.txt.gz, wiki.train.tokens
///   a file     words: its first 90 % of lines are train, the next 5 % valid, the rest test (rounded down); at least
///              20 lines
///              characters and pairs: its first 90 % of characters are train (rounded down), the rest valid, as
///              nanoGPT has it, and test is empty; at least 20 characters
/// A byte order mark belongs to no token. Pairs are trained on train alone. Memory: characters and pairs hold all of
/// the text while they are cut, 1 byte a byte, then 4 bytes a token.
/// throws DataError, naming the file and where it can the line: missing, empty, not UTF-8, words of more than 4,096
///        bytes, two files for one part, fewer lines or characters than a split needs, a part of fewer than 2 tokens
TextDataset load_text(const std::string& path, const Tokens& tokens = {});

/// A number that differs (but for chance) between texts of different content, whatever their names: ranks compare it.
std::uint64_t fingerprint(const TextDataset& data);
/// Such a number of the tokens alone, in their order: weights are good for one vocabulary.
std::uint64_t fingerprint(const Vocabulary& vocabulary);

}  // namespace laconic
