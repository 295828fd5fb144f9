#include "core/cuda/launch.cuh"
#include "tests/launch_kernels.h"

namespace laconic::tests {

using namespace laconic::cuda;

void divide(std::int64_t* quotients, std::int64_t* rests, const std::int64_t* x, std::int64_t n, std::int64_t d) {
  const Divisor by(d);
  map(n, [=] __device__(std::int64_t i) {
    const auto [quotient, rest] = by(x[i]);
    quotients[i] = quotient, rests[i] = rest;
  });
}

void add_index(float* y, std::int64_t n) {
  map(n, [=] __device__(std::int64_t i) { y[i] += static_cast<float>(i); });
}

__global__ void sum_hundreds_kernel(float* sums, float* largest, const float* x) {
  float sum = 0, most = -1e30f;
  for (int i = threadIdx.x; i < 100; i += blockDim.x) {
    const float v = x[blockIdx.x * 100 + i];
    sum += v;
    most = v > most ? v : most;
  }
  sum = block_sum(sum);
  most = block_reduce(most, Max{});
  if (threadIdx.x == blockDim.x - 1) sums[blockIdx.x] = sum, largest[blockIdx.x] = most;
}
void sum_hundreds(float* sums, float* largest, const float* x, int blocks, int threads) {
  launch(sum_hundreds_kernel, blocks, threads, sums, largest, x);
}

__global__ void votes_kernel(unsigned* ballots, int* counts, const int* flags) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  ballots[i] = __ballot_sync(kAllLanes, flags[i]);
  counts[i] = __syncthreads_count(flags[i]);
}
void votes(unsigned* ballots, int* counts, const int* flags, int n) {
  launch(votes_kernel, n / 64, 64, ballots, counts, flags);
}

__global__ void neighbours_kernel(int* up, int* down, const int* x) {
  const int i = threadIdx.x;
  up[i] = __shfl_up_sync(kAllLanes, x[i], 1);
  down[i] = __shfl_down_sync(kAllLanes, x[i], 1);
}
void neighbours(int* up, int* down, const int* x) { launch(neighbours_kernel, 1, 32, up, down, x); }

__global__ void count_digits_kernel(unsigned* counts, const int* x, std::int64_t n) {
  __shared__ unsigned mine[10];
  if (threadIdx.x < 10) mine[threadIdx.x] = 0;
  __syncthreads();
  for (std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[x[i] % 10], 1u);
  __syncthreads();
  if (threadIdx.x < 10) atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
void count_digits(unsigned* counts, const int* x, std::int64_t n) { launch(count_digits_kernel, 3, 96, counts, x, n); }

__global__ void report_kernel(Report* report, const std::int64_t* x, std::int64_t n, std::int64_t limit) {
  const std::int64_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] >= limit) tell(report, Finding::label, i, x[i], limit);
}
void report_from(const std::int64_t* x, std::int64_t n, std::int64_t limit) {
  launch(report_kernel, blocks_for(n), kBlock, report(), x, n, limit);
}

__global__ void miss_barrier_kernel() {
  if (threadIdx.x == 40) return;
  __shfl_sync(kAllLanes, 1, 0);
}
void miss_barrier() { launch(miss_barrier_kernel, 1, 64); }

__global__ void without_barrier_kernel(float* y) {
  __shared__ float shared[65];
  shared[threadIdx.x] = static_cast<float>(threadIdx.x);
  y[threadIdx.x] = threadIdx.x == 0 ? 0.0f : shared[threadIdx.x - 1];
}
void without_barrier(float* y) { launch(without_barrier_kernel, 1, 64, y); }

__global__ void race_kernel(float* y, Race race) {
  __shared__ float shared[2];
  const bool first = threadIdx.x == 0;
  switch (race) {
    case Race::none:
      if (first) shared[0] = 1;
      __syncwarp();
      if (threadIdx.x == 1) shared[1] = shared[0];
      __syncthreads();
      if (threadIdx.x == 40) y[blockIdx.x + 1] = shared[1];
      atomicAdd(y, 1.0f);
      break;
    case Race::warp:
      if (first) shared[0] = 1;
      __shfl_sync(kAllLanes, 1, 0);
      if (threadIdx.x == 1) y[blockIdx.x + 1] = shared[0];
      break;
    case Race::block:
      if (first) shared[0] = 1;
      __syncwarp();
      if (threadIdx.x == 40) y[blockIdx.x + 1] = shared[0];
      break;
    case Race::grid:
      if (first) y[0] = 1;
      break;
    case Race::read_first:
      if (threadIdx.x == 40) y[blockIdx.x + 1] = shared[0];
      if (first) shared[0] = 1;
      break;
    case Race::atomic:
      atomicAdd(y, 1.0f);
      if (first) y[blockIdx.x + 1] = y[0];
      break;
    case Race::misaligned:
      if (first && blockIdx.x == 0) *reinterpret_cast<double*>(y + 1) = 1;
      break;
  }
}
void run_race(float* y, Race race) { launch(race_kernel, 2, 64, y, race); }

}  // namespace laconic::tests
