#pragma once
#include <cstdint>
#include <optional>
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

/// A text in three parts, each line's words and then <eos>, as numbers. Never changed once read, so that any number of
/// workers share one.
///   vocabulary   the words of train in the order of their first appearance, <eos> where the first line ends; <unk> is
///                the last one if train has none
struct TextDataset {
  std::string name;  ///< the folder or file, or "synthetic"
  Vocabulary vocabulary;
  std::vector<std::int32_t> train, valid, test;
  std::int64_t unseen = 0;  ///< words of valid and test that train does not have, read as <unk>

  /// Words of valid and test from number `known` on, which train does not have, become <unk>.
  void close_vocabulary(std::int32_t known);
};

/// Reads UTF-8 text, plain or gzip. Words are what stands between ASCII blanks.
///   a folder   one file each for train, valid and test: its name, cut at dots and without ".gz", has that word among
///              its parts and ends in txt or tokens, as ptb.train.txt, train.txt.gz, wiki.train.tokens
///   a file     its first 90 % of lines are train, the next 5 % valid, the rest test (rounded down); at least 20 lines
/// throws DataError, naming the file and where it can the line: missing, empty, not UTF-8, words of more than 4,096
///        bytes, two files for one part, fewer lines than a split needs
TextDataset load_text(const std::string& path);

/// A number that differs (but for chance) between texts of different content, whatever their names: ranks compare it.
std::uint64_t fingerprint(const TextDataset& data);

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
