#pragma once
#include "core/cuda/launch.cuh"

/// What the cells of recurrent layers share. A time step is a small kernel (some ten thousand elements) between two
/// products: a thread for each element of the state, and no divisions to find its row.
namespace laconic::cuda {

template <class F>
__global__ void __launch_bounds__(kBlock) cells_kernel(std::int64_t batch, std::int64_t hidden, F f) {
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= hidden) return;
  for (std::int64_t b = blockIdx.y; b < batch; b += gridDim.y) f(b, j);
}
/// f(row, unit) for all of a state [batch, hidden].
template <class F>
void each_cell(std::int64_t batch, std::int64_t hidden, F f) {
  const auto across = static_cast<unsigned>((hidden + kBlock - 1) / kBlock);
  launch(cells_kernel<F>, dim3(across, static_cast<unsigned>(std::min<std::int64_t>(batch, 65535))), kBlock, batch,
         hidden, f);
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

}  // namespace laconic::cuda
