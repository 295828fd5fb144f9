#include "core/cuda/each.cuh"
#include "core/cuda/rounding.cuh"
#include "core/cuda/rounding.h"

namespace laconic::cuda {

void to_bf16(BFloat16* y, const float* x, std::int64_t n) {
  each(
      n, [] __device__(BFloat16 & to, float from) { to = rounded(from); }, out(y), x);
}

}  // namespace laconic::cuda
