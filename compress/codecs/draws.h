#pragma once
#include <array>
#include <cstdint>

#include "compress/codec.h"
#include "core/base/random.h"

namespace laconic::compress {

/// The random numbers of a codec that rounds at random: number i is a function of (key, i).
class Draws {
 public:
  static constexpr std::size_t kBlock = 128;
  explicit Draws(const Key& key);
  /// Numbers 128 block and on, uniform over 32 bits.
  void draw(std::uint32_t block, std::uint32_t (&numbers)[kBlock]) const;
  /// Numbers 128 b + l, and 32, 64 and 96 after it, for i = 32 b + l with l < 32. On any device.
  constexpr std::array<std::uint32_t, 4> four(std::uint32_t i) const {
    return philox({i, counter_[0], counter_[1], counter_[2]}, {key_[0], key_[1]});
  }

 private:
  std::uint32_t key_[2], counter_[3];
};

}  // namespace laconic::compress
