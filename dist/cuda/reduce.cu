#include "core/cuda/launch.cuh"
#include "dist/cuda/reduce.h"

namespace laconic::dist::cuda {

void keep_left(float* left, const float* x, const float* sent, std::int64_t n) {
  laconic::cuda::map(n, [=] __device__(std::int64_t i) {
    const float rest = x[i] - sent[i];
    left[i] = rest - rest == 0.0f ? rest : 0.0f;
  });
}

}  // namespace laconic::dist::cuda
