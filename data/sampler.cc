#include "data/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"

namespace laconic {

ShardedSampler::ShardedSampler(const Options& options) : o_(options) {
  require<UsageError>(o_.batch >= 1, "sampler: batch is ", o_.batch, ", at least 1 is needed.");
  require<UsageError>(o_.ranks >= 1 && o_.rank >= 0 && o_.rank < o_.ranks, "sampler: rank ", o_.rank, " of ", o_.ranks,
                      " does not exist.");
  require<UsageError>(o_.samples >= 0 && o_.samples <= std::numeric_limits<std::uint32_t>::max(),
                      "sampler: ", o_.samples, " samples, at most 4,294,967,295 can be numbered.");
  // The global batch must not overflow, and one longer than the samples is the same as one of just all samples.
  o_.batch = std::min(o_.batch, std::max<std::int64_t>(o_.samples, 1));
  require<UsageError>(o_.begin >= 0 && o_.begin <= o_.samples, "sampler: begin is ", o_.begin, " of ", o_.samples,
                      " samples.");
  begin_ = o_.begin, end_ = o_.samples;
  if (o_.share) {
    const std::int64_t base = o_.samples / o_.ranks, longer = o_.samples % o_.ranks;
    begin_ = o_.rank * base + std::min<std::int64_t>(o_.rank, longer);
    end_ = begin_ + base + (o_.rank < longer ? 1 : 0);
  }
}

std::int64_t ShardedSampler::steps_per_epoch() const {
  const std::int64_t stride = o_.share ? o_.batch : o_.batch * o_.ranks;
  return (end_ - begin_ + stride - 1) / stride;
}

ShardedSampler::Part ShardedSampler::part(std::int64_t step) const {
  require<ShapeError>(step >= 0 && step < steps_per_epoch(), "sampler: step ", step, " is outside the epoch's ",
                      steps_per_epoch(), " steps.");
  Part p;
  const std::int64_t stride = o_.share ? o_.batch : o_.batch * o_.ranks;
  p.global_first = begin_ + step * stride;
  p.global_count = std::min(stride, end_ - p.global_first);
  p.first = std::min(end_, p.global_first + (o_.share ? 0 : o_.rank * o_.batch));
  p.count = std::min(o_.batch, end_ - p.first);
  return p;
}

std::vector<std::uint32_t> ShardedSampler::order(std::int64_t epoch) const {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(o_.samples));
  std::iota(order.begin(), order.end(), 0u);
  if (!o_.shuffle) return order;
  Random random(o_.seed, Purpose::shuffle, static_cast<std::uint64_t>(epoch));
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
  return order;
}

}  // namespace laconic
