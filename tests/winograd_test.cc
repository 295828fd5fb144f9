#include "core/cpu/winograd.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cpu/simd.h"
#include "core/parallel.h"
#include "tests/pairwise.h"
#include "tests/values_of.h"

namespace laconic::cpu {
namespace {

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
    x = values_of(1, size(s.n * s.c * s.h * s.w)), w = values_of(2, size(s.out * s.c * 9));
    b = values_of(3, size(s.out)), dy = values_of(4, size(s.n * s.out * s.oh * s.ow));
  }
  Places in() const { return {input, s.c, s.h, s.w}; }
  Places out() const { return {output, s.out, s.oh, s.ow}; }

  /// dw and db are 1 before.
  Convolved by_winograd(bool relu = false, bool add = true) const {
    Convolved r{dy, x, std::vector<float>(w.size(), 1), std::vector<float>(b.size(), 1)};
    winograd_forward(r.y.data(), x.data(), w.data(), b.data(), relu, s, input, output);
    winograd_backward_data(r.dx.data(), dy.data(), w.data(), s, input, output);
    winograd_backward_weights(r.dw.data(), add, r.db.data(), add, x.data(), dy.data(), s, input, output);
    return r;
  }
};

double error_of(const std::vector<float>& values, const std::vector<double>& exact) {
  double most = 0, squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(double{values[i]} - exact[i]);
    most = std::isnan(error) ? HUGE_VAL : std::max(most, error);
    squares += exact[i] * exact[i];
  }
  return most / std::sqrt(squares / static_cast<double>(exact.size()));
}

void expect_near_the_naive_sums(const Problem& p) {
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
          for (std::int64_t c = 0; c < s.c; ++c)
            for (std::int64_t tap = 0; tap < 9; ++tap) {
              const std::int64_t r = i + tap / 3 - s.pad, q = j + tap % 3 - s.pad;
              if (r < 0 || q < 0 || r >= s.h || q >= s.w) continue;
              const auto weight = static_cast<std::size_t>((o * s.c + c) * 9 + tap), from = in(n, c, r, q);
              sum += double{p.x[from]} * p.w[weight];
              dx[from] += g * p.w[weight];
              dw[weight] += g * p.x[from];
            }
          y[out(n, o, i, j)] = sum;
        }
  const Convolved r = p.by_winograd();
  EXPECT_LT(error_of(r.y, y), 3e-5);
  EXPECT_LT(error_of(r.dx, dx), 3e-5);
  EXPECT_LT(error_of(r.dw, dw), 5e-5);
  EXPECT_LT(error_of(r.db, db), 1e-5);
}

ConvSizes sizes_of(std::int64_t n, std::int64_t c, std::int64_t out, std::int64_t h, std::int64_t w, int pad) {
  return {n, c, h, w, out, 3, 3, h + 2 * pad - 2, w + 2 * pad - 2, 1, pad, 1, 1};
}

constexpr Layout kLayouts[] = {Layout::channels_last, Layout::blocked16};

TEST(Winograd, IsTheNaiveSumForEverySizeLayoutAndPadding) {
  const std::int64_t batches[] = {1, 3}, channels[] = {16, 48, 144}, heights[] = {3, 4, 9}, widths[] = {3, 6, 13};
  for (const auto& row : combinations({2, 3, 3, 3, 3, 2, 2, 2})) {
    const int pad = static_cast<int>(row[5]);
    const ConvSizes s =
        sizes_of(batches[row[0]], channels[row[1]], channels[row[2]], heights[row[3]], widths[row[4]], pad);
    SCOPED_TRACE(testing::Message() << s.n << " images of " << s.c << " x " << s.h << " x " << s.w << " to " << s.out
                                    << ", pad " << pad << ", layouts " << row[6] << row[7]);
    expect_near_the_naive_sums({s, kLayouts[row[6]], kLayouts[row[7]]});
  }
}

/// Every way through the blocks: kernels transformed where they are used or before, gradients by groups of channels, in
/// one part or several, or by blocks of tiles.
const ConvSizes kWays[] = {sizes_of(2, 16, 16, 2, 2, 1),    sizes_of(1, 16, 16, 1, 1, 1),
                           sizes_of(5, 160, 32, 2, 2, 1),   sizes_of(2, 160, 80, 8, 8, 1),
                           sizes_of(41, 144, 16, 8, 8, 1),  sizes_of(3, 16, 32, 30, 30, 1),
                           sizes_of(9, 64, 32, 34, 33, 0),  sizes_of(70, 32, 16, 16, 16, 1),
                           sizes_of(2240, 16, 64, 1, 3, 1), sizes_of(260, 16, 272, 1, 3, 1)};

/// Calls f with the vectors of this processor, then with shorter ones.
template <class F>
void with_each_vector(F f) {
  struct Restore {
    ~Restore() { most_floats = 16; }
  } restore;
  for (const int floats : {16, 8, 0}) most_floats = floats, f(floats);
}

TEST(Winograd, IsTheNaiveSumOnEveryWay) {
  for (const ConvSizes& s : kWays) {
    SCOPED_TRACE(testing::Message() << s.n << " images of " << s.c << " x " << s.h << " x " << s.w << " to " << s.out);
    expect_near_the_naive_sums({s, Layout::channels_last, Layout::blocked16});
  }
}

TEST(Winograd, IsTheNaiveSumWithVectorsOfAnyLength) {
  with_each_vector([](int floats) {
    SCOPED_TRACE(testing::Message() << floats << " floats");
    expect_near_the_naive_sums({sizes_of(3, 48, 32, 9, 6, 1), Layout::channels_last, Layout::channels_last});
    expect_near_the_naive_sums({sizes_of(2, 144, 16, 2, 2, 1), Layout::blocked16, Layout::blocked16});
  });
}

TEST(Winograd, OfNoImagesGradientsAreZero) {
  for (const std::int64_t channels : {16, 64}) {
    const Problem p(sizes_of(0, channels, channels, 4, 4, 1), Layout::channels_last, Layout::channels_last);
    for (const bool add : {false, true}) {
      const Convolved r = p.by_winograd(false, add);
      EXPECT_EQ(r.dw, std::vector<float>(p.w.size(), add ? 1.0f : 0.0f));
      EXPECT_EQ(r.db, std::vector<float>(p.b.size(), add ? 1.0f : 0.0f));
    }
  }
}

TEST(Winograd, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const ConvSizes& s : kWays) {
    const Problem p(s, Layout::channels_last, Layout::channels_last);
    const Convolved one = p.by_winograd();
    for (const int threads : {2, 3}) {
      set_kernel_threads(threads);
      const Convolved several = p.by_winograd();
      set_kernel_threads(1);
      EXPECT_TRUE(same_bits(one.y, several.y) && same_bits(one.dx, several.dx) && same_bits(one.dw, several.dw) &&
                  same_bits(one.db, several.db))
          << threads << " threads, " << s.c << " x " << s.h << " to " << s.out;
    }
  }
}

TEST(Winograd, AddsOrReplacesGradientsAndCutsOffBelowZero) {
  const Problem p(sizes_of(2, 16, 32, 5, 5, 1), Layout::channels_last, Layout::channels_last);
  const Convolved added = p.by_winograd(), replaced = p.by_winograd(true, false);
  int cut = 0;
  for (std::size_t i = 0; i < added.y.size(); ++i) {
    EXPECT_EQ(replaced.y[i], added.y[i] < 0 ? 0.0f : added.y[i]);
    cut += added.y[i] < 0;
  }
  EXPECT_GT(cut, 0);
  std::vector<float> y = added.y, dw = added.dw;
  winograd_forward(y.data(), p.x.data(), p.w.data(), nullptr, false, p.s, p.input, p.output);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i] + p.b[i % 32], added.y[i], 1e-5);
  winograd_backward_weights(dw.data(), false, nullptr, false, p.x.data(), p.dy.data(), p.s, p.input, p.output);
  EXPECT_TRUE(same_bits(dw, replaced.dw));
  for (std::size_t i = 0; i < added.dw.size(); ++i) EXPECT_EQ(added.dw[i], 1 + replaced.dw[i]);
  for (std::size_t i = 0; i < added.db.size(); ++i) EXPECT_NEAR(added.db[i], 1 + replaced.db[i], 1e-6);
}

TEST(Winograd, WhatIsNoNumberStaysSo) {
  Problem p(sizes_of(1, 16, 16, 4, 4, 1), Layout::channels_last, Layout::channels_last);
  p.x[0] = p.dy[0] = std::nanf("");
  for (const bool relu : {false, true}) {
    const Convolved r = p.by_winograd(relu);
    EXPECT_TRUE(std::isnan(r.y[0]) && std::isnan(r.dx[0]) && std::isnan(r.dw[0]) && std::isnan(r.db[0]));
  }
}

TEST(Winograd, TakesKernelsOfThreeByThreeAndChannelsInSixteens) {
  const Layout last = Layout::channels_last;
  const ConvSizes good = sizes_of(32, 64, 64, 8, 8, 1);
  EXPECT_TRUE(takes_winograd(good, last, last));
  EXPECT_FALSE(takes_winograd(good, Layout::plain, last));
  EXPECT_FALSE(takes_winograd(good, last, Layout::plain));
  EXPECT_FALSE(takes_winograd(sizes_of(32, 64, 64, 1, 1, 1), last, last));
  for (const auto change :
       {+[](ConvSizes& s) { s.stride = 2; }, +[](ConvSizes& s) { s.dilation = 2; }, +[](ConvSizes& s) { s.groups = 4; },
        +[](ConvSizes& s) { s.pad = 2; }, +[](ConvSizes& s) { s.c = 40; }, +[](ConvSizes& s) { s.out = 3; },
        +[](ConvSizes& s) { s.kh = 5; }, +[](ConvSizes& s) { s.kw = 1; }}) {
    ConvSizes other = good;
    change(other);
    EXPECT_FALSE(takes_winograd(other, last, last));
  }
}

}  // namespace
}  // namespace laconic::cpu
