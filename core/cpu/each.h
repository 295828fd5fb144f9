#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/cpu/vector_math.h"
#include "core/kernels/strided.h"
#include "core/base/parallel.h"

/// How kernels go over arrays in host memory. each() and each_cell() have twins of their names in core/cuda/each.cuh,
/// so that what is made of them alone is written once for both devices (core/kernels/*.cuh).
#define LACONIC_DEVICE cpu
#define LACONIC_REAL  // in front of what LACONIC_DECLARE_REAL has declared (core/dispatch.h)
#define __device__    // what CUDA's compiler must be told of a function that runs there

namespace laconic::cpu {

/// Shortest part worth a thread of its own, in floats.
inline constexpr std::int64_t kGrain = 32768;
/// kGrain in rows of `elements`, at least 1. One element takes as long as `cost` floats of a simple loop.
inline std::int64_t row_grain(std::int64_t elements, std::int64_t cost = 1) {
  return std::max<std::int64_t>(1, kGrain / cost / std::max<std::int64_t>(elements, 1));
}

/// An array that is written and not read.
template <class T>
T* out(T* data) {
  return data;
}

/// Returns the sum of x[0 … n). It adds four numbers at a time in float, and these sums in double.
double sum_part(const float* x, std::int64_t n);

namespace detail {

/// f(i) for begin <= i < end. f comes by value: so the compiler knows that no element is a part of it.
template <class F>
LACONIC_INLINE void loop(std::int64_t begin, std::int64_t end, F f) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = begin; i < end; ++i) {
    LACONIC_INLINE_CALLS f(i);
  }
}
template <class G>
LACONIC_FLATTEN void run_anywhere(G g) {
  g();
}
#ifdef LACONIC_HAS_TARGETS
template <class G>
LACONIC_FLATTEN __attribute__((target("arch=x86-64-v3"))) void run_v3(G g) {
  g();
}
template <class G>
LACONIC_FLATTEN __attribute__((target("arch=x86-64-v4"))) void run_v4(G g) {
  g();
}
#endif
/// g() with all that it calls, compiled for this processor: as LACONIC_MULTIVERSION, which is not for templates.
template <class G>
void run_vectorised(G g) {
#ifdef LACONIC_HAS_MULTIVERSION
  if constexpr (!kAvx2AtMost)
    if (has_avx512()) return run_v4(g);
  has_avx2() ? run_v3(g) : run_anywhere(g);
#else
  run_anywhere(g);
#endif
}

}  // namespace detail

/// f(element i of each array …) for 0 <= i < n, in any order, on several threads. One element takes as long as kCost
/// floats of a simple loop. Arrays: const T* for what f takes by value, T* for what it takes by reference, out(p) for
/// what it only writes. Arrays may be the same memory, but not shifted against each other.
///   each(n, [=](float& y, float x) { y += a * x; }, y, x);
template <int kCost = 1, class F, class... Array>
void each(std::int64_t n, F f, Array... array) {
  const auto at = [=](std::int64_t i) { f(array[i]...); };
  parallel_for(n, kGrain / kCost, [at](std::int64_t begin, std::int64_t end) {
    detail::run_vectorised([=] { detail::loop(begin, end, at); });
  });
}

namespace detail {

/// Rows of an array, `far` apart, in which it goes on by 1, by more, or not at all.
template <class T>
struct Moving {
  const T* p;
  std::int64_t far;
  LACONIC_INLINE auto row(std::int64_t r) const {
    return [q = p + r * far](std::int64_t i) { return q[i]; };
  }
};
template <class T>
struct Striding {
  const T* p;
  std::int64_t far, stride;
  LACONIC_INLINE auto row(std::int64_t r) const {
    return [q = p + r * far, s = stride](std::int64_t i) { return q[i * s]; };
  }
};
template <class T>
struct Still {
  const T* p;
  std::int64_t far;
  LACONIC_INLINE auto row(std::int64_t r) const {
    return [value = p[r * far]](std::int64_t) { return value; };
  }
};

/// g(each array, as it moves or stands still): so that the loop over them has nothing to ask.
template <class G>
LACONIC_INLINE void by_stride(const G& g, const std::int64_t*, const std::int64_t*) {
  g();
}
template <class G, class T, class... Rest>
LACONIC_INLINE void by_stride(const G& g, const std::int64_t* stride, const std::int64_t* far, const T* p,
                              const Rest*... rest) {
  if (*stride == 1)
    by_stride([&](auto... others) { g(Moving<T>{p, *far}, others...); }, stride + 1, far + 1, rest...);
  else
    by_stride([&](auto... others) { g(Still<T>{p, *far}, others...); }, stride + 1, far + 1, rest...);
}

}  // namespace detail

/// f(y[i], element of each array …) for all places i of a walk, in any order, on several threads. y is only written.
template <int kCost = 1, class F, class T, class... In>
void each_strided(const StridedWalk& w, F f, T* y, const In*... x) {
  constexpr int kIn = sizeof...(In);
  if (w.contiguous(kIn)) return each<kCost>(w.elements, f, out(y), x...);
  if (w.elements == 0) return;
  constexpr auto all = std::index_sequence_for<In...>();
  // Blocks of the two innermost extents.
  const std::size_t last = static_cast<std::size_t>(w.rank - 1), depth = last > 0 ? last - 1 : 0;
  const std::int64_t inner = w.extent[last], rows = last > 0 ? w.extent[depth] : 1;
  std::array<std::int64_t, kIn> stride{}, far{};
  for (std::size_t k = 0; k < kIn; ++k) stride[k] = w.stride[k][last], far[k] = last > 0 ? w.stride[k][depth] : 0;
  const bool plain = std::all_of(stride.begin(), stride.end(), [](std::int64_t s) { return s == 0 || s == 1; });
  const auto block = [&](T* to, std::int64_t count, std::int64_t n, const In*... from) {
    const auto run = [=](auto... in) {
      detail::run_vectorised([=] {
        for (std::int64_t r = 0; r < count; ++r) {
          T* const place = to + r * inner;
          [&](auto... row) { detail::loop(0, n, [=](std::int64_t i) { f(place[i], row(i)...); }); }(in.row(r)...);
        }
      });
    };
    if (plain) return detail::by_stride(run, stride.data(), far.data(), from...);
    [&]<std::size_t... k>(std::index_sequence<k...>) { run(detail::Striding<In>{from, far[k], stride[k]}...); }
    (all);
  };
  if (inner == w.elements)
    return parallel_for(inner, kGrain / kCost, [&](std::int64_t begin, std::int64_t end) {
      [&]<std::size_t... k>(std::index_sequence<k...>) { block(y + begin, 1, end - begin, x + begin * stride[k]...); }
      (all);
    });
  parallel_for(w.elements / inner, row_grain(inner, kCost), [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int64_t, Shape::kMaxRank> at{};
    std::array<std::int64_t, kIn> offset{};
    std::int64_t r = begin % rows, rest = begin / rows;
    for (std::size_t d = depth; d-- > 0; rest /= w.extent[d]) {
      at[d] = rest % w.extent[d];
      for (std::size_t k = 0; k < kIn; ++k) offset[k] += at[d] * w.stride[k][d];
    }
    for (std::int64_t o = begin; o < end;) {
      const std::int64_t count = std::min(rows - r, end - o);
      [&]<std::size_t... k>(std::index_sequence<k...>) {
        block(y + o * inner, count, inner, x + offset[k] + r * far[k]...);
      }
      (all);
      o += count, r = 0;
      for (std::size_t d = depth; d-- > 0;) {  // the next place
        for (std::size_t k = 0; k < kIn; ++k) offset[k] += w.stride[k][d];
        if (++at[d] < w.extent[d]) break;
        for (std::size_t k = 0; k < kIn; ++k) offset[k] -= w.extent[d] * w.stride[k][d];
        at[d] = 0;
      }
    }
  });
}

/// f(row, unit) for all of a state [batch, hidden] of a recurrent layer.
template <class F>
void each_cell(std::int64_t batch, std::int64_t hidden, F f) {
  constexpr std::int64_t kCost = 32;  // the cost of one element of a state: its exponentials
  parallel_for(batch, row_grain(hidden, kCost), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto at = [=](std::int64_t j) { LACONIC_INLINE_CALLS f(b, j); };
      detail::run_vectorised([=] { detail::loop(0, hidden, at); });
    }
  });
}
/// The elementary functions that the lists of core/kernels/elementwise.h name.
LACONIC_INLINE float sigmoid_of(float x) { return fast_sigmoid(x); }
LACONIC_INLINE float tanh_of(float x) { return fast_tanh(x); }
LACONIC_INLINE float exp_of(float x) { return full_exp(x); }
LACONIC_INLINE float log_of(float x) { return full_log(x); }
LACONIC_INLINE float erf_of(float x) { return fast_erf(x); }
/// The slope of gelu at x: both its terms have the same exponential.
LACONIC_INLINE float gelu_slope(float x) {
  const float e = bounded_exp(-0.5f * x * x);
  return 0.5f + 0.5f * fast_erf(x * 0.70710678f, e) + x * 0.39894228f * e;
}
/// The slope of gelu_tanh at x, where its sigmoid is s.
LACONIC_INLINE float gelu_tanh_slope(float x, float s) {
  return s + x * s * (1.0f - s) * (1.59576912f + 0.21406444f * x * x);
}

}  // namespace laconic::cpu
