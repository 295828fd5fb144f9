#include "core/base/random.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace laconic {

// The key folds (seed, purpose) and the counter carries (a, b, draw): two streams with different (seed, purpose, a, b)
// share a block only if their mixed keys collide, and distinct a, b below 2^32 never do under one key.
Random::Random(std::uint64_t seed, Purpose purpose, std::uint64_t a, std::uint64_t b) {
  const auto lo = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto hi = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const auto mixed = philox({lo(seed), hi(seed), static_cast<std::uint32_t>(purpose), hi(a) ^ (hi(b) * 0x9E3779B9u)},
                            {0x6C61636Fu, 0x6E696321u});
  key_ = {mixed[0], mixed[1]};
  counter_ = {0, mixed[2], lo(a), lo(b)};
}

std::uint32_t Random::bits() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    if (++counter_[0] == 0) ++counter_[1];
    used_ = 0;
  }
  return block_[used_++];
}

float Random::uniform() { return to_unit_float(bits()); }

float Random::uniform(float low, float high) { return low + (high - low) * uniform(); }

float Random::normal() {
  const float u = 1.0f - uniform(), v = uniform();  // u in (0, 1]: its logarithm is finite
  return std::sqrt(-2.0f * std::log(u)) * std::cos(2.0f * std::numbers::pi_v<float> * v);
}

std::uint32_t Random::below(std::uint32_t n) {
  std::uint64_t product = std::uint64_t{bits()} * n;
  if (static_cast<std::uint32_t>(product) < n) {
    const std::uint32_t reject_below = (0u - n) % n;
    while (static_cast<std::uint32_t>(product) < reject_below) product = std::uint64_t{bits()} * n;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

std::uint64_t Random::below_large(std::uint64_t n) {
  if (n <= std::numeric_limits<std::uint32_t>::max()) return below(static_cast<std::uint32_t>(n));
  for (const std::uint64_t rejected = (0 - n) % n;;) {
    const std::uint64_t high = bits(), drawn = high << 32 | bits();
    if (drawn >= rejected) return drawn % n;
  }
}

}  // namespace laconic
