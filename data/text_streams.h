#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor.h"

namespace laconic {

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
