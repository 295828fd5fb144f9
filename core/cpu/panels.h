#pragma once
#include <type_traits>
#include <utility>

#include "core/cpu/each.h"
#include "core/base/parallel.h"

/// Products of matrices that lie as panels: blocks of 16 columns beside each other, each [rows][16].
namespace laconic::cpu {

inline constexpr std::int64_t kBlock = 16;

/// Panels of a matrix: where they lie, and how far apart.
struct Columns {
  float* data;
  std::int64_t block;
};

// Under a sanitizer products are functions of their own: compiled into each place that calls them they take a minute.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LACONIC_ONCE __attribute__((noinline))
#else
#define LACONIC_ONCE
#endif
#define LACONIC_ISA Anywhere
#define LACONIC_TARGET
#define LACONIC_VECTOR HalfLanes
#include "core/cpu/panel_product.h"
#ifdef LACONIC_HAS_TARGETS
#define LACONIC_ISA Avx2
#define LACONIC_TARGET __attribute__((target("arch=x86-64-v3")))
#define LACONIC_VECTOR HalfLanes
#include "core/cpu/panel_product.h"
#define LACONIC_ISA Avx512
#define LACONIC_TARGET __attribute__((target("arch=x86-64-v4")))
#define LACONIC_VECTOR Lanes
#include "core/cpu/panel_product.h"
#endif

/// The product of any number of rows with K blocks of columns, in nearly equal parts.
template <int kWide, int K, class Isa, class Step, class Row>
LACONIC_INLINE void product_of(Columns m, bool add, const float* a, std::int64_t a_block, Step step, Row row, Columns u,
                               std::int64_t blocks, std::int64_t n, std::int64_t rows) {
  constexpr int kMostRows = Isa::template kMostRows<kWide>;
  const std::int64_t parts = (rows + kMostRows - 1) / kMostRows;
  for (std::int64_t part = 0; part < parts; ++part) {
    const std::int64_t from = rows * part / parts, count = rows * (part + 1) / parts - from;
    float* const to = m.data + from * kWide;
    const float* const left = a + from * row;
    [&]<int... r>(std::integer_sequence<int, r...>) {
      static_cast<void>(
          ((count == r + 1 && (Isa::template product<kWide, K, r + 1>(to, m.block, add, left, a_block, step, row,
                                                                      u.data, u.block, blocks, n),
                               true)) ||
           ...));
    }
    (std::make_integer_sequence<int, kMostRows>());
  }
}

/// m [columns][rows][kWide] = or, with add, += a product with the panels of columns u, as many at once as the
/// registers take. Row r and term b n + i of the sum of what stands on the left lie at a[b a_block + i step + r row].
/// Panels are kWide columns here: 16, or 8.
template <int kWide, class Isa, class Step, class Row>
LACONIC_INLINE void product(Columns m, bool add, const float* a, std::int64_t a_block, Step step, Row row, Columns u,
                            std::int64_t columns, std::int64_t blocks, std::int64_t n, std::int64_t rows) {
  constexpr int kMostBlocks = Isa::template kMostBlocks<kWide>;
  for (; columns >= kMostBlocks; columns -= kMostBlocks) {
    product_of<kWide, kMostBlocks, Isa>(m, add, a, a_block, step, row, u, blocks, n, rows);
    m.data += kMostBlocks * m.block, u.data += kMostBlocks * u.block;
  }
  if (columns > 0) product_of<kWide, 1, Isa>(m, add, a, a_block, step, row, u, blocks, n, rows);
}

/// The same product with panels of 16 columns and steps that the compiler knows.
template <int kStep, int kRow, class Isa>
LACONIC_INLINE void product(Columns m, bool add, const float* a, std::int64_t a_block, Columns u, std::int64_t columns,
                            std::int64_t blocks, std::int64_t n, std::int64_t rows) {
  product<kBlock, Isa>(m, add, a, a_block, std::integral_constant<int, kStep>{}, std::integral_constant<int, kRow>{}, u,
                       columns, blocks, n, rows);
}

/// f.template operator()<Isa>(), compiled for this processor with its vectors. Sanitizers may look on: nothing is
/// chosen before they have started.
template <class F>
void with_vectors(const F& f) {
#ifdef LACONIC_HAS_TARGETS
  if constexpr (!kAvx2AtMost)
    if (takes_avx512()) return detail::run_v4([&f] { f.template operator()<Avx512>(); });
  if (takes_avx2()) return detail::run_v3([&f] { f.template operator()<Avx2>(); });
#endif
  f.template operator()<Anywhere>();
}

/// f(part) for each of `parts`, one a thread.
template <class F>
void in_parts(std::int64_t parts, F&& f) {
  parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) f(i);
  });
}

}  // namespace laconic::cpu
