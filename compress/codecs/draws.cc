#include "compress/codecs/draws.h"

#include "core/cpu/simd.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kBlocks = Draws::kBlock / 4;  // blocks of philox

// philox of all blocks at once, round by round, so that the compiler takes vectors.
LACONIC_MULTIVERSION void draw_loop(const std::uint32_t* counter, const std::uint32_t* key, std::uint32_t first,
                                    std::uint32_t* LACONIC_RESTRICT numbers) {
  std::uint32_t *const c0 = numbers, *const c1 = c0 + kBlocks, *const c2 = c1 + kBlocks, *const c3 = c2 + kBlocks;
  for (std::size_t l = 0; l < kBlocks; ++l)
    c0[l] = first + static_cast<std::uint32_t>(l), c1[l] = counter[0], c2[l] = counter[1], c3[l] = counter[2];
  std::uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    LACONIC_INDEPENDENT
    for (std::size_t l = 0; l < kBlocks; ++l) {
      const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0[l], p1 = std::uint64_t{0xCD9E8D57u} * c2[l];
      const std::uint32_t old1 = c1[l], old3 = c3[l];
      c0[l] = static_cast<std::uint32_t>(p1 >> 32) ^ old1 ^ k0, c1[l] = static_cast<std::uint32_t>(p1);
      c2[l] = static_cast<std::uint32_t>(p0 >> 32) ^ old3 ^ k1, c3[l] = static_cast<std::uint32_t>(p0);
    }
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
  draw_loop(counter_, key_, block * kBlocks, numbers);
}

}  // namespace laconic::compress
