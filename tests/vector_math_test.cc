// The exponentials that vectorise, against double precision and at their ends.
#include "core/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace laconic::cpu {
namespace {

LACONIC_MULTIVERSION void run(std::vector<float>& e, std::vector<float>& s, std::vector<float>& t,
                              const std::vector<float>& x) {
  for (std::size_t i = 0; i < x.size(); ++i) e[i] = bounded_exp(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) s[i] = fast_sigmoid(x[i]);
  for (std::size_t i = 0; i < x.size(); ++i) t[i] = fast_tanh(x[i]);
}

TEST(VectorMath, AgreesWithDoublePrecision) {
  std::vector<float> x;
  for (double v = -86; v <= 88; v += 1e-3) x.push_back(static_cast<float>(v));
  for (double v = 1e-30; v < 1; v *= 1.1) x.push_back(static_cast<float>(v)), x.push_back(static_cast<float>(-v));
  std::vector<float> e(x.size()), s(x.size()), t(x.size());
  run(e, s, t, x);
  double worst_e = 0, worst_s = 0, worst_t = 0;
  const auto relative = [](double got, double expected) {
    return expected == 0 ? std::abs(got) : std::abs(got / expected - 1);
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    worst_e = std::max(worst_e, relative(e[i], std::exp(v)));
    worst_s = std::max(worst_s, relative(s[i], 1 / (1 + std::exp(-v))));
    worst_t = std::max(worst_t, relative(t[i], std::tanh(v)));
  }
  EXPECT_LT(worst_e, 2.5e-7);
  EXPECT_LT(worst_s, 4e-7);
  EXPECT_LT(worst_t, 4e-7);
}

TEST(VectorMath, SaturatesAndShowsNaN) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {1e30f, -1e30f, infinity, -infinity, nan, -nan, 0, 1e-40f,
                                1e30f, -1e30f, infinity, -infinity, nan, -nan, 0, 1e-40f, nan};
  std::vector<float> e(x.size()), s(x.size()), t(x.size());
  run(e, s, t, x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(e[i]) && std::isnan(s[i]) && std::isnan(t[i])) << i;
    } else {
      EXPECT_TRUE(std::isfinite(e[i])) << x[i];
      EXPECT_NEAR(s[i], x[i] > 1 ? 1 : x[i] < -1 ? 0 : 0.5, 1e-37) << x[i];
      EXPECT_NEAR(t[i], x[i] > 1 ? 1 : x[i] < -1 ? -1 : 0, 1e-37) << x[i];
    }
  }
}

}  // namespace
}  // namespace laconic::cpu
