#pragma once
#include <cstdint>

/// As core/cpu/dropout.h on the selected device: the same masks.
namespace laconic::cuda {

/// Where element e of sample n lies: n * sample + e / inner * outer_step + e % inner * inner_step.
struct DropoutPlaces {
  std::int64_t sample, inner, outer_step, inner_step;
};
/// keep = the mask of cpu::dropout_mask, y = keep ? scale x : 0. Element e of sample n is where `places` says in all
/// three. y may be x.
void dropout_forward(float* y, std::uint8_t* keep, const float* x, float scale, const DropoutPlaces& places,
                     std::int64_t rows, std::int64_t per_row, float p, std::uint64_t seed, std::uint32_t layer,
                     std::int64_t step, std::int64_t first_row);
void dropout_apply(float* y, const float* x, const std::uint8_t* keep, float scale, std::int64_t n);
void multiply(float* y, const float* a, const float* b, std::int64_t n);

}  // namespace laconic::cuda
