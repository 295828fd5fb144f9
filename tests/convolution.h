#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/kernels/products.h"
#include "core/base/parallel.h"
#include "tests/values_of.h"

/// A convolution's three passes beside their naive sums, for kernels of our own.
namespace laconic::cpu {

/// Where a pixel of a channel lies.
struct Places {
  Layout layout;
  std::int64_t c, h, w;
  std::size_t operator()(std::int64_t n, std::int64_t channel, std::int64_t i, std::int64_t j) const {
    const std::int64_t at = layout == Layout::channels_last
                                ? ((n * h + i) * w + j) * c + channel
                                : (((n * (c / 16) + channel / 16) * h + i) * w + j) * 16 + channel % 16;
    return static_cast<std::size_t>(at);
  }
};

struct Convolved {
  std::vector<float> y, dx, dw, db;
};

struct Problem {
  ConvSizes s;
  Layout input, output;
  std::vector<float> x, w, b, dy;

  Problem(const ConvSizes& sizes, Layout in, Layout out) : s(sizes), input(in), output(out) {
    const auto size = [](std::int64_t n) { return static_cast<std::size_t>(n); };
    x = values_of(1, size(s.n * s.c * s.h * s.w)), w = values_of(2, size(s.out * s.c * taps()));
    b = values_of(3, size(s.out)), dy = values_of(4, size(s.n * s.out * s.oh * s.ow));
  }
  Places in() const { return {input, s.c, s.h, s.w}; }
  Places out() const { return {output, s.out, s.oh, s.ow}; }

  std::int64_t taps() const { return s.kh * s.kw; }

  /// Room for what the kernels write. dw and db are 1 before.
  Convolved before() const { return {dy, x, std::vector<float>(w.size(), 1), std::vector<float>(b.size(), 1)}; }
};

/// The largest error, over the root of the mean square.
inline double largest_error(const std::vector<float>& values, const std::vector<double>& exact) {
  double most = 0, squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(double{values[i]} - exact[i]);
    most = std::isnan(error) ? HUGE_VAL : std::max(most, error);
    squares += exact[i] * exact[i];
  }
  return most / std::sqrt(squares / static_cast<double>(exact.size()));
}

/// The sums in double: y, dx, and what is added to a dw and a db of 1.
struct NaiveSums {
  std::vector<double> y, dx, dw, db;
};
inline NaiveSums naive_sums(const Problem& p) {
  const ConvSizes& s = p.s;
  const Places in = p.in(), out = p.out();
  std::vector<double> y(p.dy.size()), dx(p.x.size()), dw(p.w.size(), 1), db(p.b.size(), 1);
  for (std::int64_t n = 0; n < s.n; ++n)
    for (std::int64_t o = 0; o < s.out; ++o)
      for (std::int64_t i = 0; i < s.oh; ++i)
        for (std::int64_t j = 0; j < s.ow; ++j) {
          const double g = p.dy[out(n, o, i, j)];
          double sum = p.b[static_cast<std::size_t>(o)];
          db[static_cast<std::size_t>(o)] += g;
          for (std::int64_t r = 0; r < s.kh; ++r)
            for (std::int64_t q = 0; q < s.kw; ++q) {
              const std::int64_t row = i * s.stride + r - s.pad, column = j * s.stride + q - s.pad;
              if (row < 0 || column < 0 || row >= s.h || column >= s.w) continue;
              for (std::int64_t c = 0; c < s.c; ++c) {
                const auto weight = static_cast<std::size_t>(((o * s.c + c) * s.kh + r) * s.kw + q);
                const std::size_t from = in(n, c, row, column);
                sum += double{p.x[from]} * p.w[weight];
                dx[from] += g * p.w[weight];
                dw[weight] += g * p.x[from];
              }
            }
          y[out(n, o, i, j)] = sum;
        }
  return {y, dx, dw, db};
}

struct Bounds {
  double results, weights;  ///< on errors of y and dx, and of dw
};
inline void expect_near_the_naive_sums(const Problem& p, const Convolved& r, Bounds bounds) {
  const NaiveSums exact = naive_sums(p);
  EXPECT_LT(largest_error(r.y, exact.y), bounds.results);
  EXPECT_LT(largest_error(r.dx, exact.dx), bounds.results);
  EXPECT_LT(largest_error(r.dw, exact.dw), bounds.weights);
  EXPECT_LT(largest_error(r.db, exact.db), 1e-5);
}

/// That passes(problem) gives the same bits with one thread and with several.
template <class F>
void expect_the_same_bits_on_any_number_of_threads(const Problem& p, F&& passes) {
  const Convolved one = passes(p);
  for (const int threads : {2, 3}) {
    set_kernel_threads(threads);
    const Convolved several = passes(p);
    set_kernel_threads(1);
    EXPECT_TRUE(same_bits(one.y, several.y) && same_bits(one.dx, several.dx) && same_bits(one.dw, several.dw) &&
                same_bits(one.db, several.db))
        << threads << " threads, " << p.s.c << " x " << p.s.h << " to " << p.s.out;
  }
}

}  // namespace laconic::cpu
