#include "data/text_blocks.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "data/input_file.h"

namespace laconic {

TextBlocks::TextBlocks(const std::vector<std::int32_t>& text, const Options& options) : text_(&text), o_(options) {
  require<UsageError>(o_.batch >= 1 && o_.length >= 1, "blocks of text: batch = ", o_.batch, ", length = ", o_.length,
                      " must be at least 1.");
  require<UsageError>(o_.ranks >= 1 && o_.rank >= 0 && o_.rank < o_.ranks, "blocks of text: rank ", o_.rank, " of ",
                      o_.ranks, " does not exist.");
}

TextBlocks TextBlocks::training(const std::vector<std::int32_t>& text, const Options& options, std::uint64_t seed) {
  TextBlocks blocks(text, options);
  require<DataError>(std::ssize(text) > options.length, "the training text has ", grouped(text.size()),
                     text.size() == 1 ? " token" : " tokens", ", and a block of ", options.length,
                     " with what follows it needs one more than that. Give a longer text, or shorter blocks.");
  require<DataError>(text.size() <= std::numeric_limits<std::uint32_t>::max(), "the training text has ",
                     grouped(text.size()), " tokens, and blocks begin at one of 4,294,967,295 at most. Split it.");
  blocks.seed_ = seed;
  return blocks;
}

TextBlocks TextBlocks::evaluation(const std::vector<std::int32_t>& text, const Options& options) {
  TextBlocks blocks(text, options);
  const std::int64_t foretold = std::max<std::int64_t>(std::ssize(text) - 1, 0);
  const std::int64_t all = foretold / options.length + (foretold % options.length > 0);
  blocks.first_ = all * options.rank / options.ranks;
  blocks.count_ = all * (options.rank + 1) / options.ranks - blocks.first_;
  blocks.o_.batch = std::min(options.batch, std::max<std::int64_t>(blocks.count_, 1));  // must not overflow
  return blocks;
}

std::int64_t TextBlocks::batches() const {
  if (!seed_) return (count_ + o_.batch - 1) / o_.batch;
  return std::max<std::int64_t>((std::ssize(*text_) - 1) / o_.length / o_.batch / o_.ranks, 1);
}

TextBlocks::Batch TextBlocks::batch(std::int64_t number) const {
  const std::int64_t length = o_.length, last = std::ssize(*text_) - 1;
  std::vector<std::int64_t> starts(
      static_cast<std::size_t>(seed_ ? o_.batch : std::min(o_.batch, count_ - number * o_.batch)));
  for (std::int64_t b = 0; b < std::ssize(starts); ++b) {
    const std::int64_t sample = o_.rank * o_.batch + b, block = first_ + number * o_.batch + b;
    starts[static_cast<std::size_t>(b)] =
        seed_ ? Random(*seed_, Purpose::blocks, static_cast<std::uint64_t>(number), static_cast<std::uint64_t>(sample))
                    .below(static_cast<std::uint32_t>(last + 1 - length))
              : block * length;
  }
  const std::int64_t rows = std::ssize(starts) * length;
  Batch batch{Tensor::empty({std::ssize(starts), length}, DType::i64), Tensor::empty({rows}, DType::i64), rows};
  batch.counted -= std::max<std::int64_t>(starts.back() + length - last, 0);
  auto *x = batch.x.data<std::int64_t>(), *next = batch.next.data<std::int64_t>();
  for (const std::int64_t start : starts)
    for (std::int64_t t = start; t < start + length; ++t) {
      *x++ = (*text_)[static_cast<std::size_t>(std::min(t, last))];
      *next++ = (*text_)[static_cast<std::size_t>(std::min(t + 1, last))];
    }
  return batch;
}

}  // namespace laconic
