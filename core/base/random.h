#pragma once
#include <array>
#include <cstdint>
#include <utility>

namespace laconic {

/// Counter-based random numbers: a pure function of (key, counter), so results depend on no hidden state, no thread
/// and no order, and a resumed run draws what an uninterrupted one would have drawn.
/// source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", Philox4x32-10.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * counter[0], p1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(p1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(p0)};
    key[0] += 0x9E3779B9u, key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// What random numbers are drawn for. Part of the key, so that streams never overlap. Append only: resumed runs and
/// golden values depend on the numbers.
enum class Purpose : std::uint32_t {
  init = 1,
  shuffle,
  augment,
  dropout,
  synthetic,
  codec,
  test,
  selection,
  generate,
  split,
  straggling,
  low_rank,
  faults,
  blocks,
  pairing
};

/// A stream of random numbers keyed by (seed, purpose, a, b), for example a = epoch, b = sample.
/// Cheap to make (no state to warm up); draw number i is philox(i).
class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose, std::uint64_t a = 0, std::uint64_t b = 0);

  std::uint32_t bits();                             ///< uniform over 32 bits
  float uniform();                                  ///< [0, 1), multiples of 2^-24
  float uniform(float low, float high);             ///< [low, high)
  float normal();                                   ///< mean 0, variance 1 (Box-Muller)
  std::uint32_t below(std::uint32_t n);             ///< uniform over 0 … n-1, unbiased (Lemire 2019). n >= 1
  /// The same over 0 … n-1 for any n >= 1: below(n) where 32 bits hold it.
  std::uint64_t below_large(std::uint64_t n);
  /// Puts elements into a random order (Fisher-Yates), each as likely as any other. Fewer than 2^32 elements.
  template <class Order>
  void shuffle(Order& order) {
    for (auto i = static_cast<std::uint32_t>(order.size()); i > 1; --i) std::swap(order[i - 1], order[below(i)]);
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

/// [0, 1) from 32 random bits: the upper 24, exactly representable.
constexpr float to_unit_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

}  // namespace laconic
