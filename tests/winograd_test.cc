#include "core/cpu/convolutions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/convolution.h"
#include "tests/each_vector.h"
#include "tests/pairwise.h"

namespace laconic::cpu {
namespace {

ConvSizes sizes_of(std::int64_t n, std::int64_t c, std::int64_t out, std::int64_t h, std::int64_t w, int pad) {
  return {n, c, h, w, out, 3, 3, h + 2 * pad - 2, w + 2 * pad - 2, 1, pad, 1, 1};
}

Convolved by_winograd(const Problem& p, bool relu = false, bool add = true) {
  Convolved r = p.before();
  winograd_forward(r.y.data(), p.x.data(), p.w.data(), p.b.data(), relu, p.s, p.input, p.output);
  winograd_backward_data(r.dx.data(), p.dy.data(), p.w.data(), p.s, p.input, p.output);
  winograd_backward_weights(r.dw.data(), add, r.db.data(), add, p.x.data(), p.dy.data(), p.s, p.input, p.output);
  return r;
}

void expect_near_the_naive_sums(const Problem& p) {
  expect_near_the_naive_sums(p, by_winograd(p), {.results = 3e-5, .weights = 5e-5});
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
/// one part or several, or by chunks of tiles.
const ConvSizes kWays[] = {sizes_of(2, 16, 16, 2, 2, 1),    sizes_of(1, 16, 16, 1, 1, 1),
                           sizes_of(5, 160, 32, 2, 2, 1),   sizes_of(2, 160, 80, 8, 8, 1),
                           sizes_of(41, 144, 16, 8, 8, 1),  sizes_of(3, 16, 32, 30, 30, 1),
                           sizes_of(9, 64, 32, 34, 33, 0),  sizes_of(70, 32, 16, 16, 16, 1),
                           sizes_of(2240, 16, 64, 1, 3, 1), sizes_of(260, 16, 272, 1, 3, 1)};

TEST(Winograd, IsTheNaiveSumOnEveryWay) {
  for (const ConvSizes& s : kWays) {
    SCOPED_TRACE(testing::Message() << s.n << " images of " << s.c << " x " << s.h << " x " << s.w << " to " << s.out);
    expect_near_the_naive_sums({s, Layout::channels_last, Layout::blocked16});
  }
}

TEST(Winograd, IsTheNaiveSumWithVectorsOfAnyLength) {
  with_each_vector([] {
    expect_near_the_naive_sums({sizes_of(3, 48, 32, 9, 6, 1), Layout::channels_last, Layout::channels_last});
    expect_near_the_naive_sums({sizes_of(2, 144, 16, 2, 2, 1), Layout::blocked16, Layout::blocked16});
  });
}

TEST(Winograd, OfNoImagesGradientsAreZero) {
  for (const std::int64_t channels : {16, 64}) {
    const Problem p(sizes_of(0, channels, channels, 4, 4, 1), Layout::channels_last, Layout::channels_last);
    for (const bool add : {false, true}) {
      const Convolved r = by_winograd(p, false, add);
      EXPECT_EQ(r.dw, std::vector<float>(p.w.size(), add ? 1.0f : 0.0f));
      EXPECT_EQ(r.db, std::vector<float>(p.b.size(), add ? 1.0f : 0.0f));
    }
  }
}

TEST(Winograd, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const ConvSizes& s : kWays)
    expect_the_same_bits_on_any_number_of_threads({s, Layout::channels_last, Layout::channels_last},
                                                  [](const Problem& p) { return by_winograd(p); });
}

TEST(Winograd, AddsOrReplacesGradientsAndCutsOffBelowZero) {
  const Problem p(sizes_of(2, 16, 32, 5, 5, 1), Layout::channels_last, Layout::channels_last);
  const Convolved added = by_winograd(p), replaced = by_winograd(p, true, false);
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
    const Convolved r = by_winograd(p, relu);
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
