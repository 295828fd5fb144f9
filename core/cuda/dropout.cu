#include "core/cuda/dropout.h"
#include "core/cuda/each.cuh"
#include "core/random.h"

namespace laconic::cuda {

void dropout_forward(float* y, std::uint8_t* keep, const float* x, float scale, const DropoutPlaces& places,
                     std::int64_t rows, std::int64_t per_row, float p, std::uint64_t seed, std::uint32_t layer,
                     std::int64_t step, std::int64_t first_row) {
  const auto mixed = philox({static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                             static_cast<std::uint32_t>(Purpose::dropout), 0},
                            {0x6C61636Fu, 0x6E696321u});
  const std::uint32_t k0 = mixed[0], k1 = mixed[1], of_step = static_cast<std::uint32_t>(step),
                      threshold = static_cast<std::uint32_t>(static_cast<double>(p) * 4294967296.0);
  const std::int64_t blocks = (per_row + 63) / 64 * 16;
  const DropoutPlaces at = places;
  map(rows * blocks, [=] __device__(std::int64_t i) {
    const std::int64_t n = i / blocks, block = i % blocks;
    const auto words = philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(first_row + n), of_step, layer}, {k0, k1});
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const std::int64_t e = block / 16 * 64 + word * 16 + block % 16;
      if (e >= per_row) break;
      const std::int64_t place = n * at.sample + e / at.inner * at.outer_step + e % at.inner * at.inner_step;
      const bool kept = words[static_cast<std::size_t>(word)] >= threshold;
      keep[place] = kept;
      y[place] = kept ? scale * x[place] : 0.0f;
    }
  });
}

void dropout_apply(float* y, const float* x, const std::uint8_t* keep, float scale, std::int64_t n) {
  each(
      n, [=] __device__(float& yi, float xi, std::uint8_t kept) { yi = kept ? scale * xi : 0.0f; }, out(y), x, keep);
}

void multiply(float* y, const float* a, const float* b, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float ai, float bi) { yi = ai * bi; }, out(y), a, b);
}

}  // namespace laconic::cuda
