// INCEPTIONN's codec with a bound that follows the values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compress/inceptionn/inceptionn.h"
#include "tests/error_of.h"
#include "tests/values_of.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kScaledBlock = 4096;

struct RelativelyCoded {
  std::vector<std::byte> message;
  std::vector<float> values;
};
RelativelyCoded relatively_coded(const std::vector<float>& x, int exponent = 0) {
  const RelativeInceptionn codec(exponent);
  Bytes payload;
  payload.append(3);  // what stands before stays
  codec.encode(slice(x), {}, payload);
  const Slice<std::byte> message = payload.slice().sub(3, payload.size() - 3);
  EXPECT_LE(message.size(), codec.max_bytes(x.size()));
  RelativelyCoded c{{message.begin(), message.end()}, std::vector<float>(x.size(), 7.0f)};
  codec.decode(message, slice(c.values));
  return c;
}

/// By the definition: a mean, a power of two below it, a bound.
double relative_bound(const float* x, std::size_t n, int exponent) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::abs(static_cast<double>(x[i]));
  return sum > 0 ? std::exp2(std::floor(std::log2(sum / static_cast<double>(n))) + exponent) : 0;
}

TEST(RelativeInceptionn, EveryBlockKeepsItsOwnBound) {
  std::vector<float> x = laconic::values_of(1, 3 * kScaledBlock + 700);
  for (std::size_t i = kScaledBlock; i < 2 * kScaledBlock; ++i)
    x[i] *= 1e-7f;  // a layer of small gradients between others
  for (std::size_t i = 3 * kScaledBlock; i < x.size(); ++i) x[i] *= 3e9f;
  for (const int exponent : {-6, 0, 2}) {
    const std::vector<float> y = relatively_coded(x, exponent).values;
    for (std::size_t at = 0; at < x.size(); at += kScaledBlock) {
      const std::size_t n = std::min(kScaledBlock, x.size() - at);
      const double bound = relative_bound(x.data() + at, n, exponent);
      double worst = 0;
      for (std::size_t i = at; i < at + n; ++i) worst = std::max(worst, std::abs(double{x[i]} - double{y[i]}));
      EXPECT_LE(worst, bound) << at << " " << exponent;
      EXPECT_GT(worst, bound / 4) << at << " " << exponent << ": it is no bound";
    }
  }
}

TEST(RelativeInceptionn, ScaleChangesNothingButTheExponents) {
  const std::vector<float> x = laconic::values_of(2, 2 * kScaledBlock);
  std::vector<float> small = x;
  for (float& v : small) v *= 0x1p-30f;
  const RelativelyCoded a = relatively_coded(x), b = relatively_coded(small);
  ASSERT_EQ(a.message.size(), b.message.size());
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(static_cast<int>(static_cast<std::int8_t>(b.message[i])),
              static_cast<int>(static_cast<std::int8_t>(a.message[i])) - 30);
  EXPECT_TRUE(std::equal(a.message.begin() + 2, a.message.end(), b.message.begin() + 2));
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(b.values[i], a.values[i] * 0x1p-30f);
}

TEST(RelativeInceptionn, ExpectsAboutTheBytesOfALaplaceDistribution) {
  std::vector<float> x(64 * kScaledBlock);
  std::mt19937 random(1);
  std::exponential_distribution<float> magnitude;
  for (std::size_t i = 0; i < x.size(); ++i)  // means all over an octave
    x[i] = (i % 2 ? -1.0f : 1.0f) * std::exp2(static_cast<float>(i / kScaledBlock) / 64) * magnitude(random);
  for (const int exponent : {-8, -2, -1, 0, 1, 2}) {
    const auto bytes = static_cast<double>(relatively_coded(x, exponent).message.size());
    EXPECT_NEAR(RelativeInceptionn(exponent).expected_bytes(x.size()) / bytes, 1, 0.1) << exponent;
  }
}

TEST(RelativeInceptionn, ZerosInfinitiesAndNaNsComeBack) {
  EXPECT_EQ(relatively_coded(std::vector<float>(100, 0.0f)).values, std::vector<float>(100, 0.0f));
  std::vector<float> x = laconic::values_of(3, 2 * kScaledBlock);
  x[5] = std::numeric_limits<float>::infinity();
  x[kScaledBlock + 5] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> y = relatively_coded(x).values;
  EXPECT_EQ(y[5], x[5]);
  EXPECT_TRUE(std::isnan(y[kScaledBlock + 5]));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isfinite(x[i])) {
      EXPECT_LE(std::abs(x[i] - y[i]), 1) << i;
    }
  }
  const std::vector<float> tiny(50, 1e-44f), huge(50, 3e38f);  // beyond the exponents that there are
  EXPECT_EQ(relatively_coded(tiny).values, std::vector<float>(50, 0.0f));
  EXPECT_EQ(relatively_coded(huge).values, huge);
}

TEST(RelativeInceptionn, RefusesWhatIsNoMessage) {
  const RelativeInceptionn codec(0);
  std::vector<float> x = laconic::values_of(4, kScaledBlock + 1);
  const std::vector<std::byte> message = relatively_coded(x).message;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, message.size() - 1})
    expect_error<DataError>([&] { codec.decode(slice(message).first(bytes), slice(x)); },
                            {"inceptionn codec: ", " bytes are no "});
}

}  // namespace
}  // namespace laconic::compress
