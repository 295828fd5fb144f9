#pragma once
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "core/cuda/runtime.h"

/// How kernels are launched and what they are made of. Kernels are C++ that two compilers read: nvcc, for a GPU, and
/// the host's, for tests on a device emulated by it (tests/emulated_cuda). So no <<< >>>, no dynamic shared memory, no
/// inline assembler outside of __CUDA_ARCH__, and every __shared__ variable has a fixed size.
/// Before a loop: some of its turns stand beside each other, so that several loads are under way.
#define LACONIC_PRAGMA(text) _Pragma(#text)
#ifdef __CUDACC__
#define LACONIC_UNROLL(turns) LACONIC_PRAGMA(unroll turns)
#else
#define LACONIC_UNROLL(turns) LACONIC_PRAGMA(GCC unroll turns)
#endif

namespace laconic::cuda {

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;
/// Threads of a block, where nothing speaks for another number.
constexpr int kBlock = 256;

/// Runs a kernel on the calling thread's stream.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, Arguments&&... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream();
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...), "launch");
}

/// Blocks for n threads' worth of work in a loop over the grid: enough to fill the device and no more than `waves`
/// times.
inline unsigned blocks_for(std::int64_t n, int threads = kBlock, int waves = 8) {
  const std::int64_t needed = (n + threads - 1) / threads;
  const std::int64_t most = static_cast<std::int64_t>(limits().multiprocessors) * (2048 / threads) * waves;
  return static_cast<unsigned>(std::min(needed, most));
}

/// Divides by d >= 1, which all threads share, by a multiplication and a shift: a 64-bit division takes over thirty
/// instructions (Granlund and Montgomery 1994, Division by Invariant Integers using Multiplication, Figure 4.1).
class Divisor {
 public:
  struct Divided {
    std::int64_t quotient, rest;
  };
  explicit Divisor(std::int64_t d) : d_(std::max<std::int64_t>(1, d)) {
    const auto by = static_cast<std::uint64_t>(d_);
    while (std::uint64_t{1} << shift_ < by) ++shift_;
    using Wide = unsigned __int128;
    factor_ = static_cast<std::uint64_t>((Wide{(std::uint64_t{1} << shift_) - by} << 64) / by) + 1;
  }
  /// i / d and i % d. i >= 0.
  __device__ Divided operator()(std::int64_t i) const {
    const auto n = static_cast<unsigned long long>(i);
    const auto q = static_cast<std::int64_t>((__umul64hi(n, factor_) + n) >> shift_);
    return {q, i - q * d_};
  }

 private:
  std::int64_t d_;
  std::uint64_t factor_;
  unsigned shift_ = 0;
};

template <class F>
__global__ void __launch_bounds__(kBlock) map_kernel(std::int64_t n, F f) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) f(i);
}
/// f(i) for 0 <= i < n, each in some thread. f : a __device__ lambda that captures by value.
template <class F>
void map(std::int64_t n, F f) {
  if (n > 0) launch(map_kernel<F>, blocks_for(n), kBlock, n, f);
}

/// Sum (or whatever `combine` does: commutative, associative up to rounding) over the lanes of a full warp; every lane
/// has it. The order is fixed: the same bits every time.
template <class T, class Combine>
__device__ T warp_reduce(T value, Combine combine) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    value = combine(value, __shfl_xor_sync(kAllLanes, value, offset));
  return value;
}
/// Combines over all threads of a block whose size is a multiple of 32; every thread gets it. Two barriers.
template <class T, class Combine>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T shared[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  value = warp_reduce(value, combine);
  __syncthreads();  // an earlier call may still be reading
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  value = shared[0];
  for (int i = 1; i < warps; ++i) value = combine(value, shared[i]);
  return value;
}
template <class T>
__device__ T shuffle_up(T value, unsigned by) {
  return __shfl_up_sync(kAllLanes, value, by);
}
/// The sum of what the threads before this one of the block came with; *all: of all threads'. T has +, - and a
/// shuffle_up. As block_reduce; two barriers.
template <class T>
__device__ T block_before(T value, T* all) {
  __shared__ T of_warp[kWarp];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  T up = value;
  for (unsigned by = 1; by < kWarp; by *= 2) {
    const T other = shuffle_up(up, by);
    if (lane >= static_cast<int>(by)) up = up + other;
  }
  __syncthreads();  // an earlier call may still be reading
  if (lane == kWarp - 1) of_warp[warp] = up;
  __syncthreads();
  T before = up - value, sum = of_warp[0];
  for (int w = 0; w < warp; ++w) before = before + of_warp[w];
  for (int w = 1; w < warps; ++w) sum = sum + of_warp[w];
  *all = sum;
  return before;
}
struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a < b ? b : a;
  }
};
template <class T>
__device__ T warp_sum(T value) {
  return warp_reduce(value, Sum{});
}
template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, Sum{});
}

/// Memory for as long as the work asked for so far takes: it is given back at once, and the stream's order does the
/// rest.
template <class T>
class Temporary {
 public:
  explicit Temporary(std::size_t count) : block_(allocate(count * sizeof(T))) {}
  ~Temporary() { give_back(block_); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  T* data() const { return reinterpret_cast<T*>(block_.data); }

 private:
  Block block_;
};

/// Tells the host of a value that cannot be (core/cuda/runtime.h).
__device__ inline void tell(Report* report, Finding finding, std::int64_t position, std::int64_t value,
                            std::int64_t limit) {
  if (atomicCAS(&report->finding, 0, static_cast<std::int32_t>(finding)) != 0) return;
  report->position = position;
  report->value = value;
  report->limit = limit;
}

}  // namespace laconic::cuda
