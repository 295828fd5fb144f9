// The cosine transform of blocks, against its definition in double.
#include "compress/dct.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

#include "core/base/random.h"

namespace laconic::compress {
namespace {

/// Coefficient (a, b) of an h x w block, term by term.
double slow_coefficient(const std::vector<float>& x, std::size_t h, std::size_t w, std::size_t a, std::size_t b) {
  const auto factor = [](std::size_t k, std::size_t n) { return std::sqrt((k > 0 ? 2.0 : 1.0) / double(n)); };
  const auto wave = [](std::size_t k, std::size_t i, std::size_t n) {
    return std::cos(std::numbers::pi / double(n) * (double(i) + 0.5) * double(k));
  };
  double sum = 0;
  for (std::size_t i = 0; i < h; ++i)
    for (std::size_t j = 0; j < w; ++j) sum += double{x[i * w + j]} * wave(a, i, h) * wave(b, j, w);
  return sum * factor(a, h) * factor(b, w);
}

TEST(Dct, IsItsDefinitionAndItsInverseGivesTheBlockBack) {
  for (const auto& [h, w] : {std::pair<std::size_t, std::size_t>{1, 1}, {1, 64}, {7, 1}, {5, 13}, {16, 31}}) {
    const std::size_t stride = w + 3;
    std::vector<float> in(h * stride), x(h * w), y(h * w), work(h * w), back(h * w);
    Random random(1, Purpose::test, h, w);
    for (float& v : in) v = random.normal();
    for (std::size_t i = 0; i < h; ++i) std::copy_n(in.begin() + static_cast<std::ptrdiff_t>(i * stride), w, &x[i * w]);
    const Dct rows(h), columns(w);
    dct_block(rows, columns, in.data(), stride, y.data(), work.data());
    double energy = 0, kept = 0;
    for (std::size_t a = 0; a < h; ++a)
      for (std::size_t b = 0; b < w; ++b) {
        ASSERT_NEAR(y[a * w + b], slow_coefficient(x, h, w, a, b), 1e-5) << h << " x " << w << ": " << a << ", " << b;
        energy += double{y[a * w + b]} * y[a * w + b], kept += double{x[a * w + b]} * x[a * w + b];
      }
    EXPECT_NEAR(energy, kept, 1e-5 * kept) << "orthonormal";
    inverse_dct_block(rows, columns, y.data(), back.data(), work.data());
    for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(back[i], x[i], 1e-5) << h << " x " << w;
  }
}

TEST(Dct, FewCoefficientsGiveTheBitsOfAll) {
  constexpr std::size_t kSide = 33;
  const Dct side(kSide);
  std::vector<float> y(kSide * kSide), x = y, work = y, wave = y;
  y[5 * kSide + 8] = 2;
  inverse_dct_block(side, side, y.data(), x.data(), work.data());
  for (std::size_t i = 0; i < kSide; ++i)
    for (std::size_t j = 0; j < kSide; ++j)
      ASSERT_EQ(x[i * kSide + j], side.matrix()[5 * kSide + i] * (2 * side.matrix()[8 * kSide + j]));
  y[5 * kSide + 8] = NAN;
  inverse_dct_block(side, side, y.data(), x.data(), work.data());
  for (const float v : x) ASSERT_TRUE(std::isnan(v)) << "is not hidden";
}

}  // namespace
}  // namespace laconic::compress
