// Dropout masks are a function of where an element is in the global batch, and of nothing else.
#include "core/ops/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/raw.h"
#include "layers/layers.h"
#include "tests/cuda_devices.h"

namespace laconic {
namespace {

/// The mask, which is equal on every device.
std::vector<float> mask(const Shape& shape, const ops::DropoutKey& key, float p = 0.5f) {
  const std::vector<float> all = ops::dropout(Tensor::full(shape, 1), p, key).to_vector();
  for (const Device device : with_cuda({}))
    EXPECT_EQ(ops::dropout(Tensor::full(shape, 1, device), p, key).to_vector(), all) << device;
  return all;
}

TEST(Dropout, KeepsOneMinusPAndScalesItUp) {
  for (float p : {0.1f, 0.5f, 0.9f}) {
    const auto y = mask({100, 1000}, {.seed = 1}, p);
    double kept = 0;
    for (float v : y) {
      EXPECT_FLOAT_EQ(v, v == 0 ? 0 : 1 / (1 - p));
      kept += v != 0;
    }
    const double n = static_cast<double>(y.size()), deviation = std::sqrt(n * p * (1 - p));
    EXPECT_NEAR(kept, n * (1 - p), 4 * deviation) << p;
  }
}

TEST(Dropout, OfSequencesDoesNotDependOnHowWorkersShareTheStreams) {
  constexpr std::int64_t kSteps = 5, kStreams = 6, kWidth = 70;
  ops::DropoutKey key{.seed = 3, .layer = 4, .step = 5, .first_sample = 40, .time_first = true};
  const auto whole = mask({kSteps, kStreams, kWidth}, key);
  key.first_sample += 4;
  const auto last_two = mask({kSteps, 2, kWidth}, key);
  for (std::int64_t t = 0; t < kSteps; ++t)
    for (std::int64_t i = 0; i < 2 * kWidth; ++i)
      ASSERT_EQ(last_two[static_cast<std::size_t>(t * 2 * kWidth + i)],
                whole[static_cast<std::size_t>((t * kStreams + 4) * kWidth + i)]);
  const auto step = [&](std::int64_t t) {
    return std::vector<float>(whole.begin() + t * kStreams * kWidth, whole.begin() + (t + 1) * kStreams * kWidth);
  };
  EXPECT_NE(step(0), step(1));
  EXPECT_THROW(mask({3}, key), ShapeError);
}

TEST(Dropout, DoesNotDependOnHowWorkersShareTheBatch) {
  const auto whole = mask({12, 130}, {.seed = 3, .layer = 4, .step = 5, .first_sample = 100});
  std::vector<float> parts;
  for (std::int64_t first : {0, 5, 6}) {
    const std::int64_t count = first == 0 ? 5 : first == 5 ? 1 : 6;
    const auto part = mask({count, 130}, {.seed = 3, .layer = 4, .step = 5, .first_sample = 100 + first});
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
}

TEST(Dropout, DoesNotDependOnThreads) {
  const auto one = mask({64, 1000}, {.seed = 3});
  set_kernel_threads(2);
  const auto two = mask({64, 1000}, {.seed = 3});
  set_kernel_threads(1);
  EXPECT_EQ(one, two);
}

TEST(Dropout, DoesNotDependOnTheLayout) {
  const Tensor x = Tensor::full({3, 32, 3, 5}, 1);
  const auto plain = ops::dropout(x, 0.5f, {.seed = 2}).to_vector();
  for (Layout layout : {Layout::channels_last, Layout::blocked16}) {
    const Tensor y = ops::dropout(raw::to_layout(x, layout), 0.5f, {.seed = 2});
    EXPECT_EQ(y.layout(), layout);
    EXPECT_EQ(y.to_vector(), plain);
  }
}

TEST(Dropout, DrawsAnewForEachSeedLayerStepAndSample) {
  const auto base = mask({1, 256}, {.seed = 1, .layer = 1, .step = 1, .first_sample = 1});
  for (const ops::DropoutKey& key : {ops::DropoutKey{2, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 2, 1}, {1, 1, 1, 2}}) {
    const auto other = mask({1, 256}, key);
    int same = 0;
    for (std::size_t i = 0; i < base.size(); ++i) same += base[i] == other[i];
    EXPECT_NEAR(same, 128, 32);  // independent coins agree half of the time; 4 standard deviations
  }
}

TEST(Dropout, DrawsWhatTheReferencePhiloxDraws) {  // the vectorised one, element by element
  const auto key = philox({7, 0, static_cast<std::uint32_t>(Purpose::dropout), 0}, {0x6C61636Fu, 0x6E696321u});
  const auto y = mask({2, 100}, {.seed = 7, .layer = 3, .step = 9, .first_sample = 20}, 0.25f);
  for (std::uint32_t n = 0; n < 2; ++n)
    for (std::uint32_t e = 0; e < 100; ++e) {
      const auto words = philox({e / 64 * 16 + e % 16, 20 + n, 9, 3}, {key[0], key[1]});
      EXPECT_EQ(y[n * 100 + e] != 0, words[e / 16 % 4] >= 0x40000000u) << n << " " << e;
    }
}

TEST(Dropout, IsOffInEvaluationAndWhereTheContextSaysSo) {
  Sequential model({make<Dropout>({.p = 0.5f})});
  const Tensor x = Tensor::full({4, 50}, 1);
  ForwardContext context{.seed = 1, .dropout = false};
  EXPECT_NE(model(x).to_vector(), x.to_vector());
  model.set_context(&context);
  EXPECT_EQ(model(x).to_vector(), x.to_vector());
  context.dropout = true;
  EXPECT_NE(model(x).to_vector(), x.to_vector());
  model.eval();
  EXPECT_EQ(model(x).to_vector(), x.to_vector());
}

TEST(Dropout, DrawsAnewInEachLayerOfAModel) {
  Sequential a({make<Dropout>({.p = 0.5f})}), b({make<Identity>(), make<Dropout>({.p = 0.5f})});
  a.name_all(), b.name_all();
  const Tensor x = Tensor::full({4, 50}, 1);
  EXPECT_NE(a(x).to_vector(), b(x).to_vector());
}

TEST(Dropout, RefusesAProbabilityOutsideZeroToOne) {
  EXPECT_THROW(make<Dropout>({.p = 1.0f}), ShapeError);
  EXPECT_THROW(make<Dropout>({.p = -0.1f}), ShapeError);
}

}  // namespace
}  // namespace laconic
