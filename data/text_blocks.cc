#include "data/text_blocks.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/random.h"
#include "data/input_file.h"

namespace laconic {

TextBlocks::TextBlocks(const TokenSequence& text, const Options& options) : text_(text), o_(options) {
  require<UsageError>(o_.batch >= 1 && o_.length >= 1, "blocks of text: batch = ", o_.batch, ", length = ", o_.length,
                      " must be at least 1.");
  require<UsageError>(o_.ranks >= 1 && o_.rank >= 0 && o_.rank < o_.ranks, "blocks of text: rank ", o_.rank, " of ",
                      o_.ranks, " does not exist.");
}

TextBlocks TextBlocks::training(const TokenSequence& text, const Options& options, std::uint64_t seed) {
  TextBlocks blocks(text, options);
  require<DataError>(std::ssize(text) > options.length, "the training text has ", grouped(text.size()),
                     text.size() == 1 ? " token" : " tokens", ", and a block of ", options.length,
                     " with what follows it needs one more than that. Give a longer text, or shorter blocks.");
  blocks.seed_ = seed;
  return blocks;
}

std::vector<std::int64_t> TextBlocks::all_of(const TokenSequence& text, std::int64_t length) {
  const std::int64_t foretold = std::max<std::int64_t>(std::ssize(text) - 1, 0);
  std::vector<std::int64_t> blocks(static_cast<std::size_t>(foretold / length + (foretold % length > 0)));
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

TextBlocks TextBlocks::of(const TokenSequence& text, const Options& options, const std::vector<std::int64_t>& blocks) {
  TextBlocks its(text, options);
  const std::int64_t all = std::ssize(blocks);
  its.blocks_.assign(blocks.begin() + all * options.rank / options.ranks,
                     blocks.begin() + all * (options.rank + 1) / options.ranks);
  its.o_.batch = std::min(options.batch, std::max<std::int64_t>(std::ssize(its.blocks_), 1));  // must not overflow
  return its;
}

TextBlocks TextBlocks::evaluation(const TokenSequence& text, const Options& options) {
  return of(text, options, all_of(text, std::max<std::int64_t>(options.length, 1)));
}

std::vector<std::int64_t> TextBlocks::unread(const std::vector<std::int64_t>& blocks, int ranks, std::int64_t read) {
  std::vector<std::int64_t> rest;
  const std::int64_t all = std::ssize(blocks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t first = all * rank / ranks, end = all * (rank + 1) / ranks;
    rest.insert(rest.end(), blocks.begin() + std::min(first + read, end), blocks.begin() + end);
  }
  return rest;
}

std::int64_t TextBlocks::batches() const {
  if (!seed_) return (std::ssize(blocks_) + o_.batch - 1) / o_.batch;
  return std::max<std::int64_t>((std::ssize(text_) - 1) / o_.length / o_.batch / o_.ranks, 1);
}

TextBlocks::Batch TextBlocks::batch(std::int64_t number) const {
  const std::int64_t length = o_.length, last = std::ssize(text_) - 1;
  std::vector<std::int64_t> starts(
      static_cast<std::size_t>(seed_ ? o_.batch : std::min(o_.batch, std::ssize(blocks_) - number * o_.batch)));
  for (std::int64_t b = 0; b < std::ssize(starts); ++b) {
    const std::int64_t sample = o_.rank * o_.batch + b, at = number * o_.batch + b;
    starts[static_cast<std::size_t>(b)] =
        seed_ ? static_cast<std::int64_t>(Random(*seed_, Purpose::blocks, static_cast<std::uint64_t>(number),
                                                 static_cast<std::uint64_t>(sample))
                                              .below_large(static_cast<std::uint64_t>(last + 1 - length)))
              : blocks_[static_cast<std::size_t>(at)] * length;
  }
  const std::int64_t rows = std::ssize(starts) * length;
  Batch batch{Tensor::empty({std::ssize(starts), length}, DType::i64), Tensor::empty({rows}, DType::i64), rows};
  batch.counted -= std::max<std::int64_t>(starts.back() + length - last, 0);
  auto *x = batch.x.data<std::int64_t>(), *next = batch.next.data<std::int64_t>();
  for (const std::int64_t start : starts) {
    text_.read(static_cast<std::size_t>(start), static_cast<std::size_t>(length), x);
    text_.read(static_cast<std::size_t>(start + 1), static_cast<std::size_t>(length), next);
    x += length, next += length;
  }
  return batch;
}

TextStreams TextStreams::training(const TokenSequence& text, std::int64_t batch, int ranks, int rank) {
  TextStreams s(text);
  const std::int64_t words = static_cast<std::int64_t>(text.size()) / (batch * ranks);
  for (std::int64_t b = 0; b < batch; ++b) s.starts_.push_back((rank * batch + b) * words);
  s.length_ = std::max<std::int64_t>(words - 1, 0);
  s.longest_ = batch;
  return s;
}

std::vector<std::int32_t> TextStreams::unread(const TokenSequence& text, std::int64_t streams, std::int64_t words) {
  std::vector<std::int32_t> rest;
  const std::int64_t each = static_cast<std::int64_t>(text.size()) / streams;
  for (std::int64_t s = 0; s < streams && words < each; ++s)
    for (std::int64_t w = s * each + words; w < (s + 1) * each; ++w) rest.push_back(text[static_cast<std::size_t>(w)]);
  return rest;
}

TextStreams TextStreams::evaluation(const TokenSequence& text, std::int64_t rows, int ranks, int rank) {
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
  const std::int64_t last = static_cast<std::int64_t>(text_.size()) - 1;
  for (std::int64_t t = from; t < from + steps; ++t)
    for (const std::int64_t start : starts_) {
      *word++ = text_[static_cast<std::size_t>(start + t)];
      // What is beyond the text's end is not counted.
      *next++ = text_[static_cast<std::size_t>(std::min(start + t + 1, last))];
    }
  return s;
}

}  // namespace laconic
