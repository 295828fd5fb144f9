#pragma once
#include "core/cuda/launch.cuh"
#include "core/kernels/strided.h"
#include "core/stream.h"
#include "core/tensor.h"

/// Loops over arrays that lie beside each other, four elements of each at a time (eight where all are bfloat16) where
/// all of them are aligned to it.
/// each() and each_cell() have twins of their names in core/cpu/each.h, so that what is made of them alone is written
/// once for both devices (core/kernels/*.cuh).
#define LACONIC_DEVICE cuda
#define LACONIC_REAL template <class Real>  // in front of what LACONIC_DECLARE_REAL has declared (core/dispatch.h)

namespace laconic::cuda {

/// An array that is written and not read.
template <class T>
struct Written {
  T* data;
};
template <class T>
Written<T> out(T* data) {
  return {data};
}

/// Names the type in which a thread computes with elements of T. It widens bfloat16 when it reads it, and rounds what
/// it writes.
template <class T>
struct Computed {
  using type = T;
  static __device__ T read(T x) { return x; }
  static __device__ T written(T x) { return x; }
};
template <>
struct Computed<BFloat16> {
  using type = float;
  static __device__ float read(BFloat16 x) { return widened(x); }
  static __device__ BFloat16 written(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    BFloat16 y;  // one instruction
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
#else
    return rounded(x);
#endif
  }
};

/// Where kWide elements have to begin, in bytes: one instruction moves 16 at most.
template <class T, int kWide>
inline constexpr std::size_t kPackAlignment = std::min<std::size_t>(16, sizeof(T) * kWide);

/// kWide elements that are moved at once.
template <class T, int kWide>
struct alignas(kPackAlignment<T, kWide>) Pack {
  T v[kWide];
};
template <int kWide, class T>
__device__ Pack<typename Computed<T>::type, kWide> load_pack(const T* p) {
  const Pack<T, kWide> in = *reinterpret_cast<const Pack<T, kWide>*>(p);
  Pack<typename Computed<T>::type, kWide> pack;
#pragma unroll
  for (int k = 0; k < kWide; ++k) pack.v[k] = Computed<T>::read(in.v[k]);
  return pack;
}
template <int kWide, class T>
__device__ void store_pack(T* p, const Pack<typename Computed<T>::type, kWide>& pack) {
  Pack<T, kWide> out;
#pragma unroll
  for (int k = 0; k < kWide; ++k) out.v[k] = Computed<T>::written(pack.v[k]);
  *reinterpret_cast<Pack<T, kWide>*>(p) = out;
}
/// Whether all of these can be moved kWide elements at a time. Null can.
template <int kWide, class... T>
bool aligned_for(const T*... p) {
  return ((reinterpret_cast<std::uintptr_t>(p) % kPackAlignment<T, kWide> == 0) && ...);
}
/// How many elements of arrays of these types are moved at once: eight where all have two bytes, else four.
template <class... T>
inline constexpr int kPerMove = ((sizeof(T) == 2) && ...) ? 8 : 4;

namespace detail {

/// What a thread holds of one array: const T* is read, T* read and written, Written<T> written.
template <class Array, int kWide>
struct Held;
template <class T, int kWide>
struct Held<const T*, kWide> {
  Pack<typename Computed<T>::type, kWide> pack;
  __device__ void load(const T* p, std::int64_t i) { pack = load_pack<kWide>(p + i); }
  __device__ void store(const T*, std::int64_t) {}
};
template <class T, int kWide>
struct Held<T*, kWide> {
  Pack<typename Computed<T>::type, kWide> pack;
  __device__ void load(T* p, std::int64_t i) { pack = load_pack<kWide>(p + i); }
  __device__ void store(T* p, std::int64_t i) { store_pack<kWide>(p + i, pack); }
};
template <class T, int kWide>
struct Held<Written<T>, kWide> {
  Pack<typename Computed<T>::type, kWide> pack;
  __device__ void load(Written<T>, std::int64_t) {}
  __device__ void store(Written<T> p, std::int64_t i) { store_pack<kWide>(p.data + i, pack); }
};

template <int kWide, class F, class... Array>
__device__ void each_group(std::int64_t i, const F& f, Held<Array, kWide>... held, Array... array) {
  (held.load(array, i), ...);
#pragma unroll
  for (int k = 0; k < kWide; ++k) f(held.pack.v[k]...);
  (held.store(array, i), ...);
}

template <int kWide, class F, class... Array>
__global__ void __launch_bounds__(kBlock) each_kernel(std::int64_t n, F f, Array... array) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x, groups = n / kWide,
                     thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t i = thread; i < groups; i += stride)
    each_group<kWide, F, Array...>(i * kWide, f, Held<Array, kWide>{}..., array...);
  if (kWide > 1 && thread < n % kWide)
    each_group<1, F, Array...>(groups * kWide + thread, f, Held<Array, 1>{}..., array...);
}

template <class T>
const T* start(const T* p) {
  return p;
}
template <class T>
const T* start(Written<T> p) {
  return p.data;
}
template <class Array>
using ElementOf = std::remove_pointer_t<decltype(start(std::declval<Array>()))>;

}  // namespace detail

/// f(element i of each array …) for 0 <= i < n. Arrays: const T* for what f takes by value, T* for what it takes by
/// reference, out(p) for what it only writes. Arrays may be the same memory. The CPU's twin alone asks what it costs.
///   each(n, [=] __device__(float& y, float x) { y += a * x; }, y, x);
template <int kCost = 1, class F, class... Array>
void each(std::int64_t n, F f, Array... array) {
  if (n <= 0) return;
  constexpr int kWide = kPerMove<detail::ElementOf<Array>...>;
  if (aligned_for<kWide>(detail::start(array)...))
    launch(detail::each_kernel<kWide, F, Array...>, blocks_for((n + kWide - 1) / kWide), kBlock, n, f, array...);
  else
    launch(detail::each_kernel<1, F, Array...>, blocks_for(n), kBlock, n, f, array...);
}

template <class F, class T, std::size_t... k, class... In>
__device__ void strided_at(const StridedWalk& w, std::int64_t i, const F& f, T* y, std::index_sequence<k...>,
                           const In*... x) {
  std::int64_t offset[sizeof...(In)] = {}, rest = i;
  for (int d = w.rank; d-- > 0;) {
    const std::int64_t outside = rest / w.extent[d], at = rest - outside * w.extent[d];
    ((offset[k] += at * w.stride[k][d]), ...);
    rest = outside;
  }
  typename Computed<T>::type value;
  f(value, Computed<In>::read(x[offset[k]])...);
  y[i] = Computed<T>::written(value);
}
template <class F, class T, class... In>
__global__ void __launch_bounds__(kBlock) strided_kernel(StridedWalk w, F f, T* y, const In*... x) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < w.elements; i += stride)
    strided_at(w, i, f, y, std::index_sequence_for<In...>{}, x...);
}
/// f(y[i], element of each array …) for all places i of a walk. y is only written.
template <int kCost = 1, class F, class T, class... In>
void each_strided(const StridedWalk& w, F f, T* y, const In*... x) {
  if (w.contiguous(sizeof...(In))) return each<kCost>(w.elements, f, out(y), x...);
  if (w.elements > 0) launch(strided_kernel<F, T, In...>, blocks_for(w.elements), kBlock, w, f, y, x...);
}

template <class F>
__global__ void __launch_bounds__(kBlock) cells_kernel(std::int64_t batch, std::int64_t hidden, F f) {
  const std::int64_t j = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (j >= hidden) return;
  for (std::int64_t b = blockIdx.y; b < batch; b += gridDim.y) f(b, j);
}
/// f(row, unit) for all of a state [batch, hidden] of a recurrent layer. A time step is a small kernel (some ten
/// thousand elements) between two products: a thread for each element of the state, and no divisions to find its row.
template <class F>
void each_cell(std::int64_t batch, std::int64_t hidden, F f) {
  const auto across = static_cast<unsigned>((hidden + kBlock - 1) / kBlock);
  launch(cells_kernel<F>, dim3(across, static_cast<unsigned>(std::min<std::int64_t>(batch, 65535))), kBlock, batch,
         hidden, f);
}
/// The elementary functions that the lists of core/kernels/elementwise.h name.
__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline float erf_of(float x) { return erff(x); }
__device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ inline float tanh_of(float x) { return tanhf(x); }
/// The slope of gelu at x.
__device__ inline float gelu_slope(float x) {
  return 0.5f + 0.5f * erff(x * 0.70710678f) + x * 0.39894228f * expf(-0.5f * x * x);
}
/// The slope of gelu_tanh at x, where its sigmoid is s.
__device__ inline float gelu_tanh_slope(float x, float s) {
  return s + x * s * (1.0f - s) * (1.59576912f + 0.21406444f * x * x);
}

/// total (if not null) = the sum of n doubles, y (if not null) = a times it, always in the same order.
void add_up(double* total, float* y, double a, const double* values, std::int64_t n);

/// The value at p, after all that this thread has asked for. Waits.
template <class T>
T host_value(const T* p) {
  T value;
  copy_bytes(&value, kCpu, p, Device{Device::Kind::cuda, selected()}, sizeof value);
  return value;
}

}  // namespace laconic::cuda
