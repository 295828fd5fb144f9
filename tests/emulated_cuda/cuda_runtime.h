#pragma once
// A CUDA device on the CPU, to test kernels and the host code around them where there is no GPU. Slow, and strict where
// a GPU is lenient: streams do nothing until somebody waits for them (so that a missing wait shows), device memory
// cannot be touched by the host, barriers that not all threads reach end the program. Only what laconic uses.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include "block.h"

// --- what nvcc reads in kernels
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

inline void __syncthreads() { emulated_cuda::block_barrier(); }
inline int __syncthreads_count(int predicate) { return emulated_cuda::block_count(predicate != 0); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulated_cuda::warp_barrier(mask); }
namespace emulated_cuda {
template <class T>
T shuffle(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_exchange(mask, bits, static_cast<unsigned>(from) & 31);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int lane() { return linear_thread() % 32; }
}  // namespace emulated_cuda
template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
  return emulated_cuda::shuffle(mask, value, from);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with) {
  return emulated_cuda::shuffle(mask, value, emulated_cuda::lane() ^ with);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by) {
  const int lane = emulated_cuda::lane(), from = lane - static_cast<int>(by);
  return emulated_cuda::shuffle(mask, value, from < 0 ? lane : from);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by) {
  const int lane = emulated_cuda::lane(), from = lane + static_cast<int>(by);
  return emulated_cuda::shuffle(mask, value, from > 31 ? lane : from);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return emulated_cuda::warp_ballot(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return x == 0 ? 0 : std::countr_zero(static_cast<unsigned>(x)) + 1; }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }

template <class T, class U, class V>
T atomicCAS(T* p, U expected, V value) {
  T old = static_cast<T>(expected);
  __atomic_compare_exchange_n(p, &old, static_cast<T>(value), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return old;
}
namespace emulated_cuda {
template <class T, class F>
T atomic_update(T* p, F f) {
  T old, next;
  __atomic_load(p, &old, __ATOMIC_SEQ_CST);
  do next = f(old);
  while (!__atomic_compare_exchange(p, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
}  // namespace emulated_cuda
template <class T, class U>
T atomicAdd(T* p, U x) {
  return emulated_cuda::atomic_update(p, [x](T old) { return static_cast<T>(old + static_cast<T>(x)); });
}
template <class T, class U>
T atomicMax(T* p, U x) {
  return emulated_cuda::atomic_update(p, [x](T old) { return old < static_cast<T>(x) ? static_cast<T>(x) : old; });
}
template <class T, class U>
T atomicOr(T* p, U x) {
  return __atomic_fetch_or(p, static_cast<T>(x), __ATOMIC_SEQ_CST);
}

// --- the runtime
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719
};
namespace emulated_cuda {
/// From now on devices refuse copies, waits and events, as after a fault; or are whole again.
void break_devices(bool broken);
}  // namespace emulated_cuda

enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault
};
namespace emulated_cuda {
struct Stream;
struct Event;
}  // namespace emulated_cuda
using cudaStream_t = emulated_cuda::Stream*;
using cudaEvent_t = emulated_cuda::Event*;
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int multiProcessorCount, major, minor, maxThreadsPerMultiProcessor;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes;
  cudaStream_t stream;
  void* attrs;
  unsigned numAttrs;
};
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2,
                   cudaHostAllocDefault = 0, cudaHostAllocPortable = 1;

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);

cudaError_t cudaMalloc(void** p, std::size_t bytes);
cudaError_t cudaFree(void* p);
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream);
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

namespace emulated_cuda {
/// Work at the end of a stream's queue; done on the CPU, with device memory open, when somebody waits.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Work that is asked again until it says that it was done: meanwhile the stream stands, and the host of others goes
/// on. Returns its place in the stream, for bring().
std::uint64_t enqueue_when(cudaStream_t stream, std::function<bool()> work);
/// Within such work: does what another stream has to do up to a place, as far as that does not stand itself.
void bring(cudaStream_t stream, std::uint64_t place);
}  // namespace emulated_cuda

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  if (block.x * block.y * block.z > 1024 || block.x * block.y * block.z == 0) return cudaErrorInvalidValue;
  emulated_cuda::enqueue(config->stream, [=, all = std::tuple<Parameters...>(std::forward<Arguments>(arguments)...)] {
    emulated_cuda::run_grid(grid, block, [&] { std::apply(kernel, all); });
  });
  return cudaSuccess;
}
