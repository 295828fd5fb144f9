#include "core/cpu/convolutions.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/convolution.h"
#include "tests/each_vector.h"
#include "tests/pairwise.h"

namespace laconic::cpu {
namespace {

constexpr Layout kLast = Layout::channels_last;

Convolved directly(const Problem& p, bool relu = false, bool add = true) {
  Convolved r = p.before();
  direct_forward(r.y.data(), p.x.data(), p.w.data(), p.b.data(), relu, p.s);
  direct_backward_data(r.dx.data(), p.dy.data(), p.w.data(), p.s);
  direct_backward_weights(r.dw.data(), add, r.db.data(), add, p.x.data(), p.dy.data(), p.s);
  return r;
}

ConvSizes sizes_of(std::int64_t n, std::int64_t c, std::int64_t out, std::int64_t h, std::int64_t w, std::int64_t kh,
                   std::int64_t kw, int pad) {
  return {n, c, h, w, out, kh, kw, h + 2 * pad - kh + 1, w + 2 * pad - kw + 1, 1, pad, 1, 1};
}

void expect_near_the_naive_sums(const ConvSizes& s) {
  SCOPED_TRACE(testing::Message() << s.n << " images of " << s.c << " x " << s.h << " x " << s.w << " to " << s.out
                                  << ", kernels " << s.kh << " x " << s.kw << ", pad " << s.pad);
  const Problem p(s, kLast, kLast);
  expect_near_the_naive_sums(p, directly(p), {.results = 1e-5, .weights = 1e-5});
}

TEST(DirectConvolution, IsTheNaiveSumForEverySizeKernelAndPadding) {
  const std::int64_t batches[] = {1, 11}, channels[] = {1, 3, 8, 16}, outs[] = {1, 6, 9, 16}, sizes[] = {5, 8, 17},
                     kernels[] = {2, 3, 5};
  for (const auto& row : combinations({2, 4, 4, 3, 3, 3, 3, 2})) {
    const std::int64_t kh = kernels[row[5]], kw = kernels[row[6]];
    const int pad = row[7] == 0 ? 0 : static_cast<int>(std::min(kh, kw) - 1);
    expect_near_the_naive_sums(
        sizes_of(batches[row[0]], channels[row[1]], outs[row[2]], sizes[row[3]], sizes[row[4]], kh, kw, pad));
  }
}

// An image with fewer rows than the kernel; one pixel; many pixels, whose sums go by single images; several panels.
const ConvSizes kEdges[] = {sizes_of(2, 3, 4, 1, 6, 3, 3, 1), sizes_of(1, 1, 1, 1, 1, 1, 1, 0),
                            sizes_of(3, 1, 2, 100, 99, 3, 3, 1), sizes_of(20, 6, 16, 14, 14, 5, 5, 0),
                            sizes_of(5, 40, 48, 6, 9, 5, 5, 2)};

TEST(DirectConvolution, IsTheNaiveSumAtTheEdges) {
  for (const ConvSizes& s : kEdges) expect_near_the_naive_sums(s);
}

TEST(DirectConvolution, IsTheNaiveSumWithVectorsOfAnyLength) {
  with_each_vector([] {
    expect_near_the_naive_sums(sizes_of(9, 6, 16, 14, 14, 5, 5, 0));
    expect_near_the_naive_sums(sizes_of(2, 1, 6, 28, 28, 5, 5, 2));
  });
}

TEST(DirectConvolution, OfNoImagesGradientsAreZero) {
  const Problem p(sizes_of(0, 3, 6, 5, 5, 3, 3, 1), kLast, kLast);
  for (const bool add : {false, true}) {
    const Convolved r = directly(p, false, add);
    EXPECT_EQ(r.dw, std::vector<float>(p.w.size(), add ? 1.0f : 0.0f));
    EXPECT_EQ(r.db, std::vector<float>(p.b.size(), add ? 1.0f : 0.0f));
  }
}

TEST(DirectConvolution, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const ConvSizes& s : kEdges)
    expect_the_same_bits_on_any_number_of_threads({s, kLast, kLast}, [](const Problem& p) { return directly(p); });
}

TEST(DirectConvolution, CutsOffBelowZeroAndTakesNoBias) {
  const Problem p(sizes_of(2, 3, 6, 7, 7, 3, 3, 1), kLast, kLast);
  const Convolved whole = directly(p), cut = directly(p, true);
  int negative = 0;
  for (std::size_t i = 0; i < whole.y.size(); ++i) {
    EXPECT_EQ(cut.y[i], whole.y[i] < 0 ? 0.0f : whole.y[i]);
    negative += whole.y[i] < 0;
  }
  EXPECT_GT(negative, 0);
  std::vector<float> y = whole.y, dw(p.w.size(), 1);
  direct_forward(y.data(), p.x.data(), p.w.data(), nullptr, false, p.s);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i] + p.b[i % 6], whole.y[i], 1e-5);
  direct_backward_weights(dw.data(), true, nullptr, false, p.x.data(), p.dy.data(), p.s);
  EXPECT_TRUE(same_bits(dw, whole.dw));
}

TEST(DirectConvolution, WritesNothingBesideItsResults) {
  const Problem p(sizes_of(2, 3, 6, 7, 7, 3, 3, 1), kLast, kLast);
  constexpr std::size_t kBeside = 16;
  std::vector<float> y(p.dy.size() + kBeside, 7), dx(p.x.size() + kBeside, 7);
  direct_forward(y.data(), p.x.data(), p.w.data(), p.b.data(), false, p.s);
  direct_backward_data(dx.data(), p.dy.data(), p.w.data(), p.s);
  for (std::size_t i = 0; i < kBeside; ++i) {
    EXPECT_EQ(y[p.dy.size() + i], 7);
    EXPECT_EQ(dx[p.x.size() + i], 7);
  }
}

TEST(DirectConvolution, TakesFewChannelsOrLongSumsAndStrideOne) {
  const ConvSizes good = sizes_of(32, 6, 16, 14, 14, 5, 5, 2);
  EXPECT_TRUE(takes_direct(good, kLast, kLast));
  EXPECT_TRUE(takes_direct(sizes_of(8, 64, 192, 27, 27, 5, 5, 2), kLast, kLast));
  EXPECT_FALSE(takes_direct(sizes_of(8, 1024, 1024, 27, 27, 1, 1, 0), kLast, kLast));
  EXPECT_FALSE(takes_direct(sizes_of(8, 64, 200, 27, 27, 5, 5, 2), kLast, kLast));
  EXPECT_FALSE(takes_direct(good, Layout::plain, kLast));
  EXPECT_FALSE(takes_direct(good, kLast, Layout::blocked16));
  for (const auto change :
       {+[](ConvSizes& s) { s.stride = 2; }, +[](ConvSizes& s) { s.dilation = 2; }, +[](ConvSizes& s) { s.groups = 2; },
        +[](ConvSizes& s) { s.pad = 5; }, +[](ConvSizes& s) { s.c = 64; }, +[](ConvSizes& s) { s.out = 64; }}) {
    ConvSizes other = good;
    change(other);
    EXPECT_FALSE(takes_direct(other, kLast, kLast));
  }
}

}  // namespace
}  // namespace laconic::cpu
