#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "compress/magnitude.h"
#include "compress/residual.h"
#include "compress/selection.h"
#include "core/slice.h"

/// Selection as the literature writes it down: one pass over the tensor for every step. What `laconic bench select`
/// compares with, and what the tests hold the fast ways against. Host memory; no NaN among the values. `out` is cleared
/// by the caller, and passes are added to it. On the calling thread alone.
namespace laconic::compress::steps {

/// Top k with std::nth_element over the keys of all values. 1 pass, and as many elements of work again and again.
void nth_element(Slice<const float> values, std::size_t k, Sign sign, Selection& out);

/// Top k by radix select: the digits of 8 bits are counted, the values with the deciding digit are scattered into a
/// buffer, and the same again on that. source: Alabi et al. 2012, as RedSync's baseline has it
void radix(Slice<const float> values, std::size_t k, Sign sign, Selection& out);

/// Top k by counting digits of 11, 11 and 10 bits over all values, and one pass that collects.
void radix_histogram(Slice<const float> values, std::size_t k, Sign sign, Selection& out);

/// RedSync Algorithm 2, then the exact top k of what survives.
/// settled: ratio = 1 - eps;
///          do { threshold = mean + ratio (max - mean);  nnz = count(|x| > threshold);  ratio -= eps } while (nnz < k),
///          eps = 0.2. Where the threshold falls below 0, or does not fall (all equal), all survive.
void trimmed(Slice<const float> values, std::size_t k, Sign sign, const ResidualStats& stats, Selection& out);

/// RedSync Algorithm 3.
/// settled: ratios l = 0, r = 1;
///          ratio = (l + r)/2, threshold = mean + ratio (max - mean), nnz = count(|x| > threshold);
///          nnz < k: r = ratio;  nnz > 2k: l = ratio;  else done. At r - l < 2^-20 the last threshold with nnz >= k is
///          taken; if there is none, the exact top k. Of more than 2k the first 2k by index.
void search(Slice<const float> values, std::size_t k, Sign sign, const ResidualStats& stats, Selection& out);

/// mean + ratio (max - mean) of Algorithms 2 and 3, in float; infinite or NaN where the statistics are.
float threshold_at(double ratio, Sign sign, const ResidualStats& stats);

/// The bisection of Algorithm 3 alone. count(key): how many keys are at least `key`, exact up to 2k, any larger number
/// beyond. Returns the threshold, or -1 where it is the exact top k that counts.
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

/// The first `most` elements, by index, whose key is at least `key`.
void collect(Slice<const float> values, Sign sign, std::int32_t key, std::size_t most, Selection& out);
std::size_t count_from(Slice<const float> values, Sign sign, std::int32_t key);

}  // namespace laconic::compress::steps
