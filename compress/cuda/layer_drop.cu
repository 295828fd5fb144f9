#include "compress/cuda/layer_drop.h"
#include "compress/cuda/ordered_sum.cuh"

namespace laconic::compress::cuda {
namespace {

struct Norm {
  const float* gradient;
  float* accumulated;
  bool squares;

  __device__ double operator()(std::int64_t i, bool) const {
    float x = gradient[i];
    if (accumulated) x = accumulated[i] += x;
    const auto v = static_cast<double>(x);
    return squares ? v * v : fabs(v);
  }
};

}  // namespace

void accumulate_layer(const float* gradient, float* accumulated, std::size_t n, bool squares, double* sum) {
  ordered_sums<1>(Norm{gradient, accumulated, squares}, static_cast<std::int64_t>(n), sum);
}

}  // namespace laconic::compress::cuda
