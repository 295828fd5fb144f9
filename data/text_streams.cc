#include "data/text_streams.h"

#include <algorithm>

namespace laconic {

TextStreams TextStreams::training(const std::vector<std::int32_t>& text, std::int64_t batch, int ranks, int rank) {
  TextStreams s(text);
  const std::int64_t words = static_cast<std::int64_t>(text.size()) / (batch * ranks);
  for (std::int64_t b = 0; b < batch; ++b) s.starts_.push_back((rank * batch + b) * words);
  s.length_ = std::max<std::int64_t>(words - 1, 0);
  s.longest_ = batch;
  return s;
}

TextStreams TextStreams::evaluation(const std::vector<std::int32_t>& text, std::int64_t rows, int ranks, int rank) {
  TextStreams s(text);
  const std::int64_t foretold = std::max<std::int64_t>(static_cast<std::int64_t>(text.size()) - 1, 0);
  rows = std::min(rows, foretold);
  if (rows == 0) return s;
  const std::int64_t words = foretold / rows, longer = foretold % rows;
  for (std::int64_t r = rows * rank / ranks; r < rows * (rank + 1) / ranks; ++r) {
    s.starts_.push_back(r * words + std::min(r, longer));
    const std::int64_t length = words + (r < longer);
    if (length < s.length_) continue;
    s.length_ = length;
    ++s.longest_;
  }
  return s;
}

TextStreams::Segment TextStreams::segment(std::int64_t from, std::int64_t steps) const {
  Segment s{Tensor::empty({steps, streams()}, DType::i64), Tensor::empty({steps * streams()}, DType::i64),
            steps * streams()};
  if (from + steps == length_) s.counted -= streams() - longest_;
  auto *word = s.words.data<std::int64_t>(), *next = s.next.data<std::int64_t>();
  const std::int64_t last = static_cast<std::int64_t>(text_->size()) - 1;
  for (std::int64_t t = from; t < from + steps; ++t)
    for (const std::int64_t start : starts_) {
      *word++ = (*text_)[static_cast<std::size_t>(start + t)];
      // What is beyond the text's end is not counted.
      *next++ = (*text_)[static_cast<std::size_t>(std::min(start + t + 1, last))];
    }
  return s;
}

}  // namespace laconic
