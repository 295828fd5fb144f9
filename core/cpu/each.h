#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/cpu/vector_math.h"
#include "core/parallel.h"

/// How kernels go over arrays in host memory. each() and each_cell() have twins of their names in core/cuda/each.cuh,
/// so that what is made of them alone is written once for both devices (core/kernels/*.cuh).
#define LACONIC_DEVICE cpu
#define __device__  // what CUDA's compiler must be told of a function that runs there

namespace laconic::cpu {

/// Shortest part worth a thread of its own, in floats.
inline constexpr std::int64_t kGrain = 32768;
/// kGrain in rows of so many elements, at least 1. One element takes as long as `cost` floats of a simple loop.
inline std::int64_t row_grain(std::int64_t elements, std::int64_t cost = 1) {
  return std::max<std::int64_t>(1, kGrain / cost / std::max<std::int64_t>(elements, 1));
}

/// An array that is written and not read.
template <class T>
T* out(T* data) {
  return data;
}

namespace detail {

/// f(i) for begin <= i < end. f comes by value: so the compiler knows that no element is a part of it.
template <class F>
LACONIC_INLINE void loop(std::int64_t begin, std::int64_t end, F f) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = begin; i < end; ++i) f(i);
}
template <class F>
LACONIC_FLATTEN void loop_anywhere(std::int64_t begin, std::int64_t end, F f) {
  loop(begin, end, f);
}
#ifdef LACONIC_HAS_MULTIVERSION
template <class F>
LACONIC_FLATTEN __attribute__((target("arch=x86-64-v3"))) void loop_v3(std::int64_t begin, std::int64_t end, F f) {
  loop(begin, end, f);
}
template <class F>
LACONIC_FLATTEN __attribute__((target("arch=x86-64-v4"))) void loop_v4(std::int64_t begin, std::int64_t end, F f) {
  loop(begin, end, f);
}
/// As LACONIC_MULTIVERSION, which is not for templates.
template <class F>
auto best_loop() {
  return has_avx512() ? loop_v4<F> : has_avx2() ? loop_v3<F> : loop_anywhere<F>;
}
#else
template <class F>
auto best_loop() {
  return loop_anywhere<F>;
}
#endif

}  // namespace detail

/// f(element i of each array …) for 0 <= i < n, in any order, on several threads. One element takes as long as kCost
/// floats of a simple loop. Arrays: const T* for what f takes by value, T* for what it takes by reference, out(p) for
/// what it only writes. Arrays may be the same memory, but not shifted against each other.
///   each(n, [=](float& y, float x) { y += a * x; }, y, x);
template <int kCost = 1, class F, class... Array>
void each(std::int64_t n, F f, Array... array) {
  const auto at = [=](std::int64_t i) { f(array[i]...); };
  const auto part = detail::best_loop<decltype(at)>();
  parallel_for(n, kGrain / kCost, [&](std::int64_t begin, std::int64_t end) { part(begin, end, at); });
}

/// f(row, unit) for all of a state [batch, hidden] of a recurrent layer.
template <class F>
void each_cell(std::int64_t batch, std::int64_t hidden, F f) {
  constexpr std::int64_t kCost = 32;  // of one element of a state: its exponentials
  parallel_for(batch, row_grain(hidden, kCost), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const auto at = [=](std::int64_t j) { f(b, j); };
      detail::best_loop<decltype(at)>()(0, hidden, at);
    }
  });
}
/// What cells are activated by.
LACONIC_INLINE float cell_sigmoid(float x) { return fast_sigmoid(x); }
LACONIC_INLINE float cell_tanh(float x) { return fast_tanh(x); }

}  // namespace laconic::cpu
