#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress/select/residual.h"
#include "compress/select/selection.h"

namespace laconic::compress {

/// mean + ratio (max - mean) of RedSync's Algorithms 2 and 3, in float. It is infinite or NaN where the statistics are.
inline float threshold_at(double ratio, Sign sign, const ResidualStats& stats) {
  const double mean = stats.mean(sign);
  return static_cast<float>(mean + ratio * (static_cast<double>(stats.max(sign)) - mean));
}

/// The bisection of RedSync's Algorithm 3. Returns the threshold, or -1 where the exact top k is to be taken.
///   count(key) : the number of keys that are at least `key`, exact up to 2k, any larger number beyond
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

}  // namespace laconic::compress
