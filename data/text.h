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

#include "data/token_sequence.h"

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
///   numbers      nothing: the data are numbers of tokens, which others have cut (data/token_file.h)
struct Tokens {
  enum class Kind { words, characters, pairs, numbers };
  Kind kind = Kind::words;
  /// pairs: the tokens of a vocabulary to train, 256 to 1,000,000; 0: read one
  /// numbers: the tokens of the vocabulary, 2 to 1,000,000; 0: up to the largest number
  std::int32_t size = 0;
  std::string path{};  ///< pairs that are read: what BytePairs::load() takes

  /// "words", "chars", "bpe:SIZE", "bpe:PATH", "numbers" or "numbers:SIZE". A path that is a number is written as
  /// bpe:./NUMBER.   throws UsageError
  static Tokens parse(const std::string& text);
  std::string text() const;  ///< the text that parse() reads
  /// Whether a blank stands between two tokens.
  bool are_spaced() const { return kind == Kind::words || kind == Kind::numbers; }
};

class BytePairs;

/// A text in three parts, as numbers of tokens. Never changed once read, so that any number of workers share one.
///   vocabulary   words: of train in the order of their first appearance, <eos> where the first line ends; <unk>
///                is the last one if train has none
///                characters: of all parts, sorted by code point, each in UTF-8
///                pairs: each token's bytes, which need not be UTF-8
///                numbers: 0, 1, … in decimals
struct TextDataset {
  std::string name;  ///< the folder or file, or "synthetic"
  Tokens tokens{};
  Vocabulary vocabulary;
  std::shared_ptr<const BytePairs> pairs{};  ///< the pairs, if tokens are pairs
  TokenSequence train, valid, test;
  std::string note{};       ///< what a reader of the data should know of how they were read, in lines
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
///   a folder   one file each for train, valid and test (data/text_parts.h)
///   a file     words: its first 90 % of lines are train, the next 5 % valid, the rest test (rounded down); at least
///              20 lines
///              characters and pairs: its first 90 % of characters are train (rounded down), the rest valid, as
///              nanoGPT has it, and test is empty; at least 20 characters
/// A byte order mark belongs to no token. Pairs are trained on train alone. Memory: characters and pairs hold all of
/// the text while they are cut, 1 byte a byte, then 4 bytes a token.
/// Numbers, or pairs that are read where has_token_numbers(), are mapped files (data/token_file.h): one's first 90 %
/// are train, the rest valid. Without a size all are read once, to find the largest; else none is before it is needed.
/// throws DataError, naming the file and where it can the line: missing, empty, not UTF-8, a byte 0, words of more than
///        4,096 bytes, two files for one part, fewer lines or characters than a split needs, a part of fewer than 2
///        tokens; UsageError: pairs cannot be trained on numbers
TextDataset load_text(const std::string& path, const Tokens& tokens = {});

/// Whether the data are token numbers: such a file, or a folder with one for train and no text for it.
bool has_token_numbers(const std::string& path);

/// A number that differs (but for chance) between texts of different content, whatever their names: ranks compare it.
/// Of mapped files it sees samples: TokenSequence::add_to.
std::uint64_t fingerprint(const TextDataset& data);
/// Such a number of the tokens alone, in their order: weights are good for one vocabulary.
std::uint64_t fingerprint(const Vocabulary& vocabulary);

}  // namespace laconic
