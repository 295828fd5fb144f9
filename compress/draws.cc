#include "compress/draws.h"

#include "core/cpu/simd.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kBlocks = Draws::kBlock / 4;  // of philox

// Lane l of all four words at once, so that the compiler takes vectors.
LACONIC_MULTIVERSION void draw_loop(Draws draws, std::uint32_t first, std::uint32_t* LACONIC_RESTRICT numbers) {
  for (std::size_t l = 0; l < kBlocks; ++l) {
    const auto block = draws.four(first + static_cast<std::uint32_t>(l));
    for (std::size_t w = 0; w < 4; ++w) numbers[w * kBlocks + l] = block[w];
  }
}

}  // namespace

Draws::Draws(const Key& key) {
  const auto lo = [](std::uint64_t v) { return static_cast<std::uint32_t>(v); };
  const auto hi = [](std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); };
  const auto mixed = philox({lo(key.seed), hi(key.seed), static_cast<std::uint32_t>(Purpose::codec), key.operation},
                            {key.hop, key.rank});
  key_[0] = mixed[0], key_[1] = mixed[1];
  counter_[0] = lo(key.step), counter_[1] = hi(key.step), counter_[2] = mixed[2];
}

void Draws::draw(std::uint32_t block, std::uint32_t (&numbers)[kBlock]) const {
  draw_loop(*this, block * kBlocks, numbers);
}

}  // namespace laconic::compress
