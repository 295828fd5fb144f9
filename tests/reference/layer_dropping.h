// Layer dropping (Lee et al. 2020), plainly and slowly: equations (1) and (2), Algorithm 1, and the server of
// section 4.2.
//
// Settled (docs/papers/layer-dropping.md): a layer's value is of magnitudes, as the text says; R is the share that is
// dropped, so line 8 of Algorithm 1 compares with total (1 - R); value and threshold are of the sums in the cache.
//
// As fast in the product: compress/select/layer_drop.cc (accumulate_layer, layer_value, drop_threshold),
// dist/method/layer_drop/layer_drop.cc (LayerDropSync: a worker, LayerDropServer).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <vector>

namespace laconic::reference {

/// (1): accum(t) = accum(t-1) + gradients(t)
inline void accumulate(std::vector<float>& accum, std::size_t first, const std::vector<float>& gradients) {
  for (std::size_t i = 0; i < gradients.size(); ++i) accum[first + i] += gradients[i];
}

enum class Norm { mean, l1, l2 };

/// What stands for a layer: the left side of (2), the mean magnitude; or its L1 or L2 norm (section 5).
inline double representative(const float* accum, std::size_t n, std::size_t elements, Norm norm) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = std::abs(static_cast<double>(accum[i]));
    sum += norm == Norm::l2 ? x * x : x;
  }
  return norm == Norm::mean ? sum / static_cast<double>(elements) : norm == Norm::l2 ? std::sqrt(sum) : sum;
}

/// (2): what is smaller stays in the cache.
inline bool drops(double value, double threshold) { return value < threshold; }

/// Algorithm 1, Threshold searching algorithm. value, size : by layer
inline double threshold_search(const std::vector<double>& value, const std::vector<double>& size, double R) {
  const double total = std::accumulate(size.begin(), size.end(), 0.0);
  double threshold = -1;                          //  2 threshold = -1
  std::vector<std::size_t> sorted(value.size());  //  3 reverse sorting
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::stable_sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) { return value[a] > value[b]; });
  std::size_t i = 0;                   //  4 i = 0
  double num_drop = 0;                 //  5 numDrop = 0
  while (i < sorted.size()) {          //  6 while i < number of hidden layers do
    num_drop += size[sorted[i]];       //  7   numDrop += size of i-th sorted layer
    if (num_drop > total * (1 - R)) {  //  8   if numDrop > total x R then     (settled)
      threshold = value[sorted[i]];    //  9     threshold = value of i-th layer
      break;                           // 10     break
    }
    ++i;  // 12   i = i + 1
  }
  return threshold;  //  1 result: threshold
}

/// The server's step for one layer: what the workers sent, by rank, is added up. An empty list is the paper's [0],
/// which stands for zeros. Where all are, the layer is not updated, and [0] goes back.
inline std::vector<float> joined(const std::vector<std::vector<float>>& received) {
  std::vector<float> sum;
  for (const std::vector<float>& one : received) {
    if (sum.empty()) {
      sum = one;
      continue;
    }
    for (std::size_t i = 0; i < one.size(); ++i) sum[i] += one[i];
  }
  return sum;
}

}  // namespace laconic::reference
