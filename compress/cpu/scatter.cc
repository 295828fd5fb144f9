#include "compress/cpu/scatter.h"

#include <algorithm>

namespace laconic::compress::cpu {
namespace {

/// f(j, index) for all, after asking for what comes `ahead` of it.
template <std::size_t ahead, class Fetch, class F>
inline void each(const std::uint32_t* indices, std::size_t count, Fetch&& fetch, F&& f) {
  const std::size_t steady = count > ahead ? count - ahead : 0;
  for (std::size_t j = 0; j < std::min(ahead, count); ++j) fetch(indices[j]);
  for (std::size_t j = 0; j < steady; ++j) {
    fetch(indices[j + ahead]);
    f(j, indices[j]);
  }
  for (std::size_t j = steady; j < count; ++j) f(j, indices[j]);
}

/// g(j, element of v), and u = 0 there.
template <class G>
inline void change(float* u, float* v, const std::uint32_t* indices, std::size_t count, G&& g) {
  constexpr std::size_t kAhead = 64;
  if (u == nullptr) {
    each<kAhead>(
        indices, count, [&](std::uint32_t i) { __builtin_prefetch(v + i, 1); },
        [&](std::size_t j, std::uint32_t i) { g(j, v[i]); });
    return;
  }
  each<kAhead>(
      indices, count, [&](std::uint32_t i) { __builtin_prefetch(v + i, 1), __builtin_prefetch(u + i, 1); },
      [&](std::size_t j, std::uint32_t i) {
        g(j, v[i]);
        u[i] = 0;
      });
}

template <class Value>
inline void add(float* dense, const std::uint32_t* indices, std::size_t count, Value&& value) {
  each<128>(
      indices, count, [&](std::uint32_t i) { __builtin_prefetch(dense + i, 1); },
      [&](std::size_t j, std::uint32_t i) { dense[i] += value(j); });
}

}  // namespace

void clear_at(float* u, float* v, const std::uint32_t* indices, std::size_t count) {
  change(u, v, indices, count, [](std::size_t, float& x) { x = 0; });
}
void subtract_at(float* u, float* v, const std::uint32_t* indices, std::size_t count, const float* values,
                 bool single) {
  if (single) return change(u, v, indices, count, [value = *values](std::size_t, float& x) { x -= value; });
  change(u, v, indices, count, [=](std::size_t j, float& x) { x -= values[j]; });
}
void add_at(float* dense, const std::uint32_t* indices, std::size_t count, float factor, const float* values,
            bool single) {
  if (single) return add(dense, indices, count, [value = factor * *values](std::size_t) { return value; });
  add(dense, indices, count, [=](std::size_t j) { return factor * values[j]; });
}

}  // namespace laconic::compress::cpu
