#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/tensor.h"
#include "data/token_sequence.h"

namespace laconic {

/// One worker's blocks of a text: T tokens that lie one behind the other, each foretelling its next one. What a model
/// reads that keeps no state from step to step. Any batch can be asked for at any time.
class TextBlocks {
 public:
  struct Options {
    std::int64_t batch = 1;   ///< B, blocks of each worker in a batch
    std::int64_t length = 1;  ///< T, tokens of a block
    int ranks = 1, rank = 0;
  };

  /// Training: sample s of global batch i begins at a token that is drawn evenly from 0 … n - T - 1, keyed by
  /// (seed, i, s). Worker k has the samples k B … (k+1) B - 1, so the global batch is the same for any number of
  /// workers that have N B together. Blocks may overlap, and may come again.
  /// throws UsageError  an option makes no sense
  ///        DataError   the text has fewer than T + 1 tokens
  static TextBlocks training(const TokenSequence& text, const Options& options, std::uint64_t seed);
  /// Evaluation: block j begins at token j T, so that all of them together foretell every token but the text's first
  /// exactly once. Worker k has the k-th of N nearly equal parts of the blocks, in order, B at a time, maybe none.
  /// The last block of a text is filled up to T with its last token; what follows there is not counted.
  /// throws UsageError  an option makes no sense
  static TextBlocks evaluation(const TokenSequence& text, const Options& options);
  /// An evaluation of these blocks alone: j stands for the block at token j T.
  static TextBlocks of(const TokenSequence& text, const Options& options, const std::vector<std::int64_t>& blocks);
  /// The blocks of an evaluation: 0, 1, …
  static std::vector<std::int64_t> all_of(const TokenSequence& text, std::int64_t length);
  /// Returns the blocks that are left of these once each of `ranks` workers has read `read` of its part.
  static std::vector<std::int64_t> unread(const std::vector<std::int64_t>& blocks, int ranks, std::int64_t read);

  /// Evaluation: this worker's batches. Training, where any number >= 0 is a batch: enough to foretell about as many
  /// tokens as the text has, floor((n - 1) / (N B T)), at least 1; it may be called an epoch.
  std::int64_t batches() const;

  struct Batch {
    Tensor x;                  ///< i64 [B, T]; the last batch of an evaluation may have fewer blocks
    Tensor next;               ///< i64 [B * T], row b T + t: what follows x[b, t]
    std::int64_t counted = 0;  ///< rows of `next`, the first ones, that belong to the text: all, but at its end
  };
  /// number >= 0, of an evaluation also < batches()
  Batch batch(std::int64_t number) const;

 private:
  TextBlocks(const TokenSequence& text, const Options& options);
  TokenSequence text_;
  Options o_;
  std::optional<std::uint64_t> seed_;  // the seed of training
  std::vector<std::int64_t> blocks_;   // this worker's blocks of an evaluation
};

/// One worker's contiguous streams of a text, each foretelling its next word at every word. Any segment can be asked
/// for at any time.
class TextStreams {
 public:
  /// Training: N B streams of floor(n / (N B)) words, the remainder dropped; worker k has the k-th B of them. The last
  /// word of a stream is foretold, never read.
  static TextStreams training(const TokenSequence& text, std::int64_t batch, int ranks, int rank);
  /// Evaluation: `rows` streams (fewer if the text has fewer words) that foretell every word but the text's first
  /// exactly once and differ in length by one at most; worker k has the k-th of N nearly equal parts of them, maybe
  /// none.
  static TextStreams evaluation(const TokenSequence& text, std::int64_t rows, int ranks, int rank);

  /// Returns the words that are left of a text once each of `streams` training streams has read `words` of its own: the
  /// rest of the first stream, then the second's, and so on. What the cut into streams left over is not in it.
  static std::vector<std::int32_t> unread(const TokenSequence& text, std::int64_t streams, std::int64_t words);

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
  explicit TextStreams(const TokenSequence& text) : text_(text) {}
  TokenSequence text_;
  std::vector<std::int64_t> starts_;
  std::int64_t length_ = 0;
  std::int64_t longest_ = 0;  // streams, the first ones, that have this length; the others have one word less
};

}  // namespace laconic
