#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/cpu/select.h"
#include "compress/choose/magnitude.h"
#include "compress/choose/residual.h"
#include "compress/choose/selection.h"
#include "core/slice.h"

/// Parts that several selectors have in common.
namespace laconic::compress::steps {

/// Where values are cut to give the top k: above `key`, and the first `equal` of those that have it.
struct RankCut {
  std::int32_t key = 0;
  std::size_t equal = 0;
};
/// Appends the elements of a cut to `out`, and sets its threshold. On the calling thread.
inline void take(Slice<const float> values, Sign sign, RankCut cut, Selection& out) {
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

/// mean + ratio (max - mean) of RedSync's Algorithms 2 and 3, in float; infinite or NaN where the statistics are.
inline float threshold_at(double ratio, Sign sign, const ResidualStats& stats) {
  const double mean = stats.mean(sign);
  return static_cast<float>(mean + ratio * (static_cast<double>(stats.max(sign)) - mean));
}

/// The bisection of RedSync's Algorithm 3. count(key): how many keys are at least `key`, exact up to 2k, any larger
/// number beyond. Returns the threshold, or -1 where it is the exact top k that counts.
/// settled: ratios l = 0, r = 1;
///          ratio = (l + r)/2, threshold = mean + ratio (max - mean), nnz = count(|x| > threshold);
///          nnz < k: r = ratio;  nnz > 2k: l = ratio;  else done. At r - l < 2^-20 the last threshold with nnz >= k is
///          taken; if there is none, the exact top k. Where there are more than 2k, the first 2k by index.
template <class Count>
float bisect(std::size_t k, Sign sign, const ResidualStats& stats, Count&& count) {
  double low = 0, high = 1;
  float with_enough = -1;
  while (high - low >= 0x1p-20) {
    const double ratio = (low + high) / 2;
    const float threshold = threshold_at(ratio, sign, stats);
    if (!std::isfinite(threshold)) break;
    const std::size_t nnz = count(key_above(threshold, sign));
    if (nnz >= k) with_enough = threshold;
    if (nnz < k)
      high = ratio;
    else if (nnz > 2 * k)
      low = ratio;
    else
      break;
  }
  return with_enough;
}

}  // namespace laconic::compress::steps
