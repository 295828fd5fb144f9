#pragma once
#include <cstdint>

namespace laconic::cpu {

/// keep[n, e] = 1 with probability 1 - p, else 0, for n < rows and e < per_row: a pure function of (seed, layer, step,
/// first_row + n, e), so that it depends on no thread, batch or worker.
/// Element e is word e / 16 % 4 of Philox block e / 64 * 16 + e % 16: 16 blocks side by side fill 64 elements.
///   counter {block, row, step, layer}, each modulo 2^32   key: philox({seed, Purpose::dropout, 0}) as in core/random.h
void dropout_mask(std::uint8_t* keep, std::int64_t rows, std::int64_t per_row, float p, std::uint64_t seed,
                  std::uint32_t layer, std::int64_t step, std::int64_t first_row);
/// y = keep ? scale x : 0. y may be x.
void dropout_apply(float* y, const float* x, const std::uint8_t* keep, float scale, std::int64_t n);
/// y = a b, element by element. y may be a.
void multiply(float* y, const float* a, const float* b, std::int64_t n);

}  // namespace laconic::cpu
