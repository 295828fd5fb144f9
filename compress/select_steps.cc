#include "compress/select_steps.h"

#include <algorithm>
#include <vector>

#include "compress/cpu/select.h"

namespace laconic::compress::steps {

void take(Slice<const float> values, Sign sign, RankCut cut, Selection& out) {
  constexpr std::size_t kBlock = 1024;  // values whose keys are made at once
  std::vector<std::int32_t> keys(kBlock);
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    const std::size_t length = std::min(kBlock, values.size() - first);
    if (cpu::to_keys(values.data() + first, length, sign, keys.data()) < cut.key) continue;
    for (std::size_t j = 0; j < length; ++j) {
      if (keys[j] < cut.key) continue;
      if (keys[j] == cut.key && cut.equal-- == 0) {
        cut.equal = 0;
        continue;
      }
      out.indices.push_back(static_cast<std::uint32_t>(first + j));
      out.values.push_back(values[first + j]);
    }
  }
  out.threshold = magnitude_of(cut.key);
}

float threshold_at(double ratio, Sign sign, const ResidualStats& stats) {
  const double mean = stats.mean(sign);
  return static_cast<float>(mean + ratio * (static_cast<double>(stats.max(sign)) - mean));
}

}  // namespace laconic::compress::steps
