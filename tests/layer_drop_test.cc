#include "compress/select/layer_drop.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/base/random.h"
#include "tests/reference/layer_dropping.h"
#include "tests/test_devices.h"

namespace laconic::compress {
namespace {

double share_sent(const std::vector<LayerSize>& layers, double threshold) {
  double total = 0, sent = 0;
  for (const LayerSize& l : layers) {
    total += static_cast<double>(l.elements);
    if (!(l.value < threshold)) sent += static_cast<double>(l.elements);
  }
  return sent / total;
}

TEST(DropThreshold, IsThatOfAlgorithm1) {
  for (std::uint64_t round = 0; round < 500; ++round) {
    Random random(3, Purpose::synthetic, 5, round);
    std::vector<LayerSize> layers(1 + random.below(30));
    for (LayerSize& l : layers) {
      l.elements = 1 + static_cast<std::int64_t>(random.below(1u << random.below(20)));
      l.value = static_cast<double>(random.below(12)) / 8;  // many equal ones
    }
    std::vector<double> values, sizes;
    for (const LayerSize& l : layers) values.push_back(l.value), sizes.push_back(static_cast<double>(l.elements));
    for (const double R : {0.0, 0.1, 0.5, 0.9, 0.97, 0.999999}) {
      const double threshold = drop_threshold(layers, R);
      EXPECT_EQ(threshold, reference::threshold_search(values, sizes, R)) << "round " << round << ", R = " << R;
      EXPECT_GE(share_sent(layers, threshold), 1 - R);
    }
  }
}

TEST(DropThreshold, AtItsEnds) {
  const std::vector<LayerSize> layers = {{3, 10}, {5, 100}, {4, 1}, {1, 1000}};
  EXPECT_EQ(drop_threshold(layers, 0), -1);                                           // sends all
  EXPECT_EQ(drop_threshold(layers, 1 - 1e-9), 5);                                     // one layer
  EXPECT_EQ(drop_threshold(std::vector<LayerSize>{{2, 7}}, 0.5), 2);                  // a single layer is always sent
  EXPECT_EQ(drop_threshold(std::vector<LayerSize>{{2, 7}, {2, 9}, {2, 1}}, 0.9), 2);  // equal ones all are
  EXPECT_EQ(drop_threshold(std::vector<LayerSize>{}, 0.5), -1);
  EXPECT_EQ(drop_threshold(std::vector<LayerSize>{{std::nan(""), 1}, {1, 1}}, 0.9),
            std::numeric_limits<double>::infinity());
  EXPECT_THROW(drop_threshold(layers, 1), UsageError);
  EXPECT_THROW(drop_threshold(layers, -0.1), UsageError);
  EXPECT_THROW(drop_threshold(layers, std::nan("")), UsageError);
}

TEST(AccumulateLayer, AddsAndMeasuresInOnePass) {
  for (const std::size_t n : {0, 1, 15, 16, 17, 1000}) {
    std::vector<float> gradient(n), put_by(n);
    Random random(1, Purpose::synthetic, 9, n);
    double l1 = 0, squares = 0;
    std::vector<float> sum(n);
    for (std::size_t i = 0; i < n; ++i) {
      gradient[i] = static_cast<float>(random.below(2000)) / 1000 - 1;
      put_by[i] = static_cast<float>(random.below(2000)) / 1000 - 1;
      sum[i] = put_by[i] + gradient[i];
      l1 += std::abs(double{sum[i]}), squares += double{sum[i]} * double{sum[i]};
    }
    std::vector<float> accumulated = put_by;
    EXPECT_NEAR(accumulate_layer(slice(gradient), slice(accumulated), LayerNorm::l1), l1, 1e-9 * l1);
    EXPECT_EQ(accumulated, sum);
    accumulated = put_by;
    EXPECT_NEAR(accumulate_layer(slice(gradient), slice(accumulated), LayerNorm::l2), squares, 1e-9 * squares);
    // Nothing had been put by: the gradient alone.
    EXPECT_EQ(accumulate_layer(slice(sum), {}, LayerNorm::mean), accumulate_layer(slice(sum), {}, LayerNorm::l1));
    EXPECT_NEAR(accumulate_layer(slice(sum), {}, LayerNorm::l1), l1, 1e-9 * l1);
  }
  EXPECT_EQ(layer_value(6, 4, LayerNorm::mean), 1.5);
  EXPECT_EQ(layer_value(6, 4, LayerNorm::l1), 6);
  EXPECT_EQ(layer_value(9, 4, LayerNorm::l2), 3);
}

using AccumulateLayerOnCuda = CudaTest;

TEST_F(AccumulateLayerOnCuda, GivesTheBitsOfTheCpu) {
  for (const std::size_t n : {0, 1, 15, 33, 4095, 4096, 4097, 20'001})
    for (const LayerNorm norm : {LayerNorm::l1, LayerNorm::l2})
      for (const bool adds : {false, true}) {
        Random random(1, Purpose::test, n);
        std::vector<float> gradient(n), put_by(n);
        for (std::size_t i = 0; i < n; ++i) gradient[i] = random.normal(), put_by[i] = random.normal();
        const Placed<float> g(gradient, kCuda, 1), p(put_by, kCuda);
        const double sum = accumulate_layer(slice(gradient), adds ? slice(put_by) : Slice<float>{}, norm);
        EXPECT_EQ(accumulate_layer(g, adds ? p.slice() : Slice<float>{}, norm), sum) << n;
        EXPECT_EQ(host_values(p.slice()), put_by) << n;
      }
}

}  // namespace
}  // namespace laconic::compress
