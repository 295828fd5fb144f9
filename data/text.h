#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"

namespace laconic {

/// Words by number, in the order in which they were added.
class Vocabulary {
 public:
  static constexpr std::string_view kEnd = "<eos>";      ///< stands behind every line's words
  static constexpr std::string_view kUnknown = "<unk>";  ///< what a word is read as that is not in the vocabulary

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
  std::int32_t size = 0;  ///< pairs: train a vocabulary of so many tokens, 256 to 1,000,000; 0: read one
  std::string folder{};   ///< pairs that are read: where vocab.json and merges.txt are

  /// "words", "chars", "bpe:SIZE" or "bpe:FOLDER". A folder whose name is a number is written as bpe:./NUMBER.
  /// throws UsageError
  static Tokens parse(const std::string& text);
  std::string text() const;  ///< as parse() reads it
};

class BytePairs;

/// A text in three parts, as numbers of tokens. Never changed once read, so that any number of workers share one.
///   vocabulary   words: those of train in the order of their first appearance, <eos> where the first line ends; <unk>
///                is the last one if train has none
///                characters: those of all parts, sorted by code point, each in UTF-8
///                pairs: each token's bytes, which need not be UTF-8
struct TextDataset {
  std::string name;  ///< the folder or file, or "synthetic"
  Tokens tokens{};
  Vocabulary vocabulary;
  std::shared_ptr<const BytePairs> pairs{};  ///< of pairs alone
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
/// the text while they are cut, 1 byte a byte, then 4 bytes a token. throws DataError, naming the file and where it can
/// the line: missing, empty, not UTF-8, words of more than 4,096
///        bytes, two files for one part, fewer lines or characters than a split needs, a part of fewer than 2 tokens
TextDataset load_text(const std::string& path, const Tokens& tokens = {});

/// A number that differs (but for chance) between texts of different content, whatever their names: ranks compare it.
std::uint64_t fingerprint(const TextDataset& data);
/// Likewise of the tokens alone, in their order: weights are good for one vocabulary.
std::uint64_t fingerprint(const Vocabulary& vocabulary);

/// One worker's contiguous streams of a text, each foretelling its next word at every word. Reads a text that must
/// outlive it; any segment can be asked for at any time.
class TextStreams {
 public:
  /// Training: N B streams of floor(n / (N B)) words, the remainder dropped; worker k has the k-th B of them. The last
  /// word of a stream is foretold, never read.
  static TextStreams training(const std::vector<std::int32_t>& text, std::int64_t batch, int ranks, int rank);
  /// Evaluation: `rows` streams (fewer if the text has not so many words) that foretell every word but the text's first
  /// exactly once and differ in length by one at most; worker k has the k-th of N nearly equal parts of them, maybe
  /// none.
  static TextStreams evaluation(const std::vector<std::int32_t>& text, std::int64_t rows, int ranks, int rank);

  /// Returns the words that are left of a text once each of `streams` training streams has read `words` of its own: the
  /// rest of the first stream, then that of the second, and so on. What the cut into streams left over is not in it.
  static std::vector<std::int32_t> unread(const std::vector<std::int32_t>& text, std::int64_t streams,
                                          std::int64_t words);

  std::int64_t streams() const { return static_cast<std::int64_t>(starts_.size()); }
  std::int64_t length() const { return length_; }  ///< words that the longest of them foretells; 0 without streams

  /// `steps` words of each stream, from its word number `from` on.
  struct Segment {
    Tensor words;              ///< i64 [steps, streams]
    Tensor next;               ///< i64 [steps * streams], row t B + b: what follows words[t, b]
    std::int64_t counted = 0;  ///< rows of `next` that belong to the streams: all, or at their end all of the longest
  };
  /// 0 <= from, from + steps <= length()
  Segment segment(std::int64_t from, std::int64_t steps) const;

 private:
  explicit TextStreams(const std::vector<std::int32_t>& text) : text_(&text) {}
  const std::vector<std::int32_t>* text_;
  std::vector<std::int64_t> starts_;
  std::int64_t length_ = 0;
  std::int64_t longest_ = 0;  // streams, the first ones, that have this length; the others have one word less
};

}  // namespace laconic
