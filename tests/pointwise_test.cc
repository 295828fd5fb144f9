#include "core/cpu/convolutions.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/convolution.h"
#include "tests/each_vector.h"
#include "tests/pairwise.h"

namespace laconic::cpu {
namespace {

ConvSizes pointwise(std::int64_t n, std::int64_t c, std::int64_t out, std::int64_t h, std::int64_t w, int stride) {
  return {n, c, h, w, out, 1, 1, (h - 1) / stride + 1, (w - 1) / stride + 1, stride, 0, 1, 1};
}

Convolved pointwise_weights(const Problem& p, bool add = true) {
  Convolved r = p.before();
  pointwise_backward_weights(r.dw.data(), add, r.db.data(), add, p.x.data(), p.dy.data(), p.s);
  return r;
}

void expect_near_the_naive_sums_of_weights(const ConvSizes& s) {
  SCOPED_TRACE(testing::Message() << s.n << " images of " << s.c << " x " << s.h << " x " << s.w << " to " << s.out
                                  << ", stride " << s.stride);
  const Problem p(s, Layout::channels_last, Layout::channels_last);
  const Convolved r = pointwise_weights(p);
  const NaiveSums exact = naive_sums(p);
  EXPECT_LT(largest_error(r.dw, exact.dw), 1e-5);
  EXPECT_LT(largest_error(r.db, exact.db), 1e-5);
}

TEST(Pointwise, IsTheNaiveSumForEverySizeAndStride) {
  const std::int64_t batches[] = {1, 3}, channels[] = {16, 48, 80}, sizes[] = {1, 7, 16};
  for (const auto& row : combinations({2, 3, 3, 3, 3, 3}))
    expect_near_the_naive_sums_of_weights(pointwise(batches[row[0]], channels[row[1]], channels[row[2]], sizes[row[3]],
                                                    sizes[row[4]], static_cast<int>(row[5]) + 1));
}

TEST(Pointwise, IsTheNaiveSumWithVectorsOfAnyLength) {
  with_each_vector([] { expect_near_the_naive_sums_of_weights(pointwise(5, 48, 32, 9, 6, 1)); });
}

TEST(Pointwise, HasTheSameBitsOnAnyNumberOfThreads) {
  for (const ConvSizes& s : {pointwise(3, 48, 32, 16, 9, 1), pointwise(2, 16, 64, 40, 41, 2)})
    expect_the_same_bits_on_any_number_of_threads({s, Layout::channels_last, Layout::channels_last},
                                                  [](const Problem& p) { return pointwise_weights(p); });
}

TEST(Pointwise, AddsOrReplaces) {
  const Problem p(pointwise(2, 16, 32, 5, 5, 1), Layout::channels_last, Layout::channels_last);
  const Convolved added = pointwise_weights(p), replaced = pointwise_weights(p, false);
  for (std::size_t i = 0; i < added.dw.size(); ++i) EXPECT_EQ(added.dw[i], 1 + replaced.dw[i]);
  for (std::size_t i = 0; i < added.db.size(); ++i) EXPECT_EQ(added.db[i], 1 + replaced.db[i]);
  std::vector<float> dw(p.w.size(), 1);
  pointwise_backward_weights(dw.data(), false, nullptr, false, p.x.data(), p.dy.data(), p.s);
  EXPECT_TRUE(same_bits(dw, replaced.dw));
  const Problem none(pointwise(0, 16, 32, 5, 5, 1), Layout::channels_last, Layout::channels_last);
  for (const bool add : {false, true})
    EXPECT_EQ(pointwise_weights(none, add).dw, std::vector<float>(none.w.size(), add ? 1.0f : 0.0f));
}

TEST(Pointwise, TakesKernelsOfOnePixelAndChannelsInSixteens) {
  const ConvSizes good = pointwise(8, 64, 32, 8, 8, 2);
  const Layout last = Layout::channels_last;
  EXPECT_TRUE(takes_pointwise(good, last, last));
  EXPECT_FALSE(takes_pointwise(good, Layout::blocked16, last));
  EXPECT_FALSE(takes_pointwise(good, last, Layout::plain));
  for (const auto change :
       {+[](ConvSizes& s) { s.kh = 2; }, +[](ConvSizes& s) { s.kw = 3; }, +[](ConvSizes& s) { s.groups = 2; },
        +[](ConvSizes& s) { s.pad = 1; }, +[](ConvSizes& s) { s.c = 40; }, +[](ConvSizes& s) { s.out = 24; }}) {
    ConvSizes other = good;
    change(other);
    EXPECT_FALSE(takes_pointwise(other, last, last));
  }
}

}  // namespace
}  // namespace laconic::cpu
