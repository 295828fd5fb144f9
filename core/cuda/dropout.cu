#include "core/cuda/launch.cuh"
#include "core/kernels/elementwise.h"
#include "core/base/random.h"

namespace laconic::cuda {

void dropout_forward(float* y, std::uint8_t* keep, const float* x, float scale, const DropoutPlaces& places,
                     std::int64_t rows, std::int64_t per_row, const DropoutMask& given) {
  const std::int64_t blocks = (per_row + 63) / 64 * 16;
  const DropoutPlaces at = places;
  const DropoutMask mask = given;
  const Divisor by_blocks(blocks), by_inner(places.inner);
  map(rows * blocks, [=] __device__(std::int64_t i) {
    const auto [n, block] = by_blocks(i);
    const auto words = philox(
        {static_cast<std::uint32_t>(block), mask.first_row + static_cast<std::uint32_t>(n), mask.step, mask.layer},
        mask.key);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const std::int64_t e = block / 16 * 64 + word * 16 + block % 16;
      if (e >= per_row) break;
      const auto [outer, inner] = by_inner(e);
      const std::int64_t place = n * at.sample + outer * at.outer_step + inner * at.inner_step;
      const bool kept = words[static_cast<std::size_t>(word)] >= mask.threshold;
      keep[place] = kept;
      y[place] = kept ? scale * x[place] : 0.0f;
    }
  });
}

}  // namespace laconic::cuda
