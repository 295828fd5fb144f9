#include "dist/trainer/gradient_counts.h"

#include <algorithm>
#include <bit>

#include "core/host_copy.h"

namespace laconic {

bool looks_at_gradients(std::int64_t step) {
  while (step > 0 && step % 10 == 0) step /= 10;
  return step == 1;
}

void GradientCounter::begin_step(std::int64_t step) {
  counts_.clear();
  counts_this_step_ = looks_at_gradients(step);
}

void GradientCounter::gradient_ready(Parameter& p, Rows rows) {
  if (counts_this_step_) {
    const auto [first, count] = p.info.part(rows);
    const HostCopy<float> values(Slice<const float>(p.grad().range(first, count).slice()));
    auto of_p = std::ranges::find(counts_, p.info.name, &GradientCounts::parameter);
    if (of_p == counts_.end()) of_p = counts_.insert(counts_.end(), {.parameter = p.info.name});
    for (const float value : values) ++of_p->by_exponent[(std::bit_cast<std::uint32_t>(value) >> 23) & 0xFF];
  }
  next_.gradient_ready(p, rows);
}

}  // namespace laconic
