#pragma once
#include <cstdint>

#include "compress/codec.h"

namespace laconic::compress {

/// The random numbers of a codec that rounds at random: number i is a function of (key, i).
class Draws {
 public:
  static constexpr std::size_t kBlock = 128;
  explicit Draws(const Key& key);
  /// Numbers 128 block and on, uniform over 32 bits.
  void draw(std::uint32_t block, std::uint32_t (&numbers)[kBlock]) const;
  /// What they are a function of, besides their places: two words, and three.
  const std::uint32_t* key() const { return key_; }
  const std::uint32_t* counter() const { return counter_; }

 private:
  std::uint32_t key_[2], counter_[3];
};

}  // namespace laconic::compress
