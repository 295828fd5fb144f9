#include "layers/init.h"

#include <algorithm>
#include <cmath>

namespace laconic::init {

Initializer uniform_fan_in(std::int64_t fan_in) {
  return uniform(fan_in > 0 ? 1.0f / std::sqrt(static_cast<float>(fan_in)) : 0.0f);
}

Initializer uniform(float k) {
  return [k](std::span<float> values, Random& random) {
    for (float& v : values) v = random.uniform(-k, k);
  };
}

Initializer xavier(std::int64_t fan_in) { return uniform(std::sqrt(3.0f / static_cast<float>(fan_in))); }

Initializer normal(float deviation) {
  return [deviation](std::span<float> values, Random& random) {
    for (float& v : values) v = deviation * random.normal();
  };
}

Initializer he_normal(std::int64_t fan) {
  return normal(std::sqrt(2.0f / static_cast<float>(fan)));
}

Initializer constant(float value) {
  return [value](std::span<float> values, Random&) { std::fill(values.begin(), values.end(), value); };
}

}  // namespace laconic::init
