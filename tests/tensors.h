#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/base/random.h"
#include "core/tensor.h"

namespace laconic {

/// Normal values that depend on the seed alone.
inline Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::vector<float> v(static_cast<std::size_t>(shape.elements()));
  for (float& x : v) x = random.normal();
  return Tensor::of(shape, v);
}

/// A scalar whose gradient with respect to y is dy.
inline Tensor with_upstream(const Tensor& y, const Tensor& dy) {
  return record("dot", Tensor::full({1}, 0, y.device()), {y},
                [up = dy.value()](const Tensor&, Grads& grads) { grads.put(0, up); });
}

/// The largest difference in parts of the largest expected magnitude (of `least` if that is larger), however small that
/// is: zeros instead of small gradients are off by 1. Infinite where something is no number.
inline float difference(const Tensor& got, const Tensor& expected, float least = 0) {
  const std::vector<float> a = got.to_vector(), b = expected.to_vector();
  float largest = least, worst = 0;
  for (float v : b) largest = std::max(largest, std::abs(v));
  for (std::size_t i = 0; i < a.size(); ++i)
    worst = std::isfinite(a[i]) ? std::max(worst, std::abs(a[i] - b[i])) : INFINITY;
  return worst == 0 ? 0 : worst / largest;
}

/// Expects every element within `tolerance` of the expected one, in parts of the largest expected magnitude. `least`:
/// for what comes of sums that cancel, the magnitude of what they add.
inline void expect_close(const Tensor& got, const Tensor& expected, float tolerance, const std::string& what,
                         float least = 0) {
  ASSERT_TRUE(got.defined()) << what;
  ASSERT_EQ(got.shape(), expected.shape()) << what;
  EXPECT_LE(difference(got, expected, least), tolerance) << what;
}

}  // namespace laconic
