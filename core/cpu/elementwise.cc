#include "core/kernels/elementwise.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "core/cpu/each.h"
// Below the others, since its kernels are made of each().
#include "core/kernels/elementwise.cuh"

namespace laconic::cpu {
namespace {

LACONIC_MULTIVERSION std::uint32_t largest_exponent_part(const float* x, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}
LACONIC_MULTIVERSION double sum_of_squares_part(const float* x, std::int64_t n) {
  constexpr int kLanes = 16;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(x[i + l]) * x[i + l];
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}
}  // namespace
LACONIC_MULTIVERSION double sum_part(const float* x, std::int64_t n) {
  constexpr int kLanes = 8;
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  // Turning a float into a double takes longer than adding it.
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int l = 0; l < kLanes; ++l)
      lanes[l] += (x[i + l] + x[i + kLanes + l]) + (x[i + 2 * kLanes + l] + x[i + 3 * kLanes + l]);
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += x[i + l];
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  for (; i < n; ++i) lanes[0] += x[i];
  return lanes[0];
}
namespace {
LACONIC_MULTIVERSION void sum_rows_part(float* LACONIC_RESTRICT b, const float* LACONIC_RESTRICT x, std::int64_t rows,
                                        std::int64_t columns, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) b[j] += x[i * stride + j];
}

/// The sums of f(x, n) over chunks of a fixed size, added up in order.
template <class F>
double sum_of_chunks(const float* x, std::int64_t n, F f) {
  constexpr std::int64_t kChunk = 65536;
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> sums(static_cast<std::size_t>(chunks));
  parallel_for(chunks, 1, [&](std::int64_t b, std::int64_t e) {
    for (std::int64_t c = b; c < e; ++c)
      sums[static_cast<std::size_t>(c)] = f(x + c * kChunk, std::min(kChunk, n - c * kChunk));
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace

void cast(BFloat16* y, const float* x, std::int64_t n) {
  each(
      n, [](BFloat16& yi, float xi) { yi = rounded(xi); }, out(y), x);
}
void cast(float* y, const BFloat16* x, std::int64_t n) {
  each(
      n, [](float& yi, BFloat16 xi) { yi = widened(xi); }, out(y), x);
}
void cast(float* y, const std::uint8_t* x, std::int64_t n) {
  each(
      n, [](float& yi, std::uint8_t xi) { yi = xi; }, out(y), x);
}

bool all_finite(const float* x, std::int64_t n) { return largest_exponent_part(x, n) < 0x7F800000u; }

double sum_of_squares(const float* x, std::int64_t n) { return sum_of_chunks(x, n, sum_of_squares_part); }

double sum(const float* x, std::int64_t n) { return sum_of_chunks(x, n, sum_part); }

void sum_rows(float* b, const float* x, std::int64_t rows, std::int64_t columns, bool add) {
  parallel_for(columns, std::max<std::int64_t>(16, row_grain(rows)), [=](std::int64_t begin, std::int64_t end) {
    if (!add) std::fill(b + begin, b + end, 0.0f);
    sum_rows_part(b + begin, x + begin, rows, end - begin, columns);
  });
}

/// 64 elements come from the 16 blocks `block` … block + 15. Philox4x32-10 as in core/base/random.h, one block per
/// lane.
LACONIC_MULTIVERSION void dropout_mask_part(std::uint8_t* keep, std::int64_t first, std::int64_t count,
                                            std::uint32_t row, const DropoutMask& given) {
  constexpr int kLanes = 16;
  const DropoutMask mask = given;
  std::uint32_t words[4 * kLanes];
  std::uint8_t group[4 * kLanes];
  for (std::int64_t e = 0; e < count; e += 4 * kLanes) {
    const auto block = static_cast<std::uint32_t>((first + e) / 4);
    for (int lane = 0; lane < kLanes; ++lane) {
      std::uint32_t c0 = block + static_cast<std::uint32_t>(lane), c1 = row, c2 = mask.step, c3 = mask.layer,
                    k0 = mask.key[0], k1 = mask.key[1];
#pragma GCC unroll 10
      for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0, p1 = std::uint64_t{0xCD9E8D57u} * c2;
        c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c1 = static_cast<std::uint32_t>(p1);
        c3 = static_cast<std::uint32_t>(p0);
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
      }
      words[lane] = c0, words[kLanes + lane] = c1, words[2 * kLanes + lane] = c2, words[3 * kLanes + lane] = c3;
    }
    for (int i = 0; i < 4 * kLanes; ++i) group[i] = words[i] >= mask.threshold;
    std::memcpy(keep + e, group, static_cast<std::size_t>(std::min<std::int64_t>(4 * kLanes, count - e)));
  }
}

void dropout_mask(std::uint8_t* keep, std::int64_t rows, std::int64_t per_row, const DropoutMask& mask) {
  parallel_for(rows, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(per_row, 1)),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n)
                   dropout_mask_part(keep + n * per_row, 0, per_row, mask.first_row + static_cast<std::uint32_t>(n),
                                     mask);
               });
}

}  // namespace laconic::cpu
