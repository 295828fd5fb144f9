#include <algorithm>
#include <cstring>

#include "core/cpu/simd.h"
#include "core/kernels/elementwise.h"
#include "core/base/parallel.h"

namespace laconic::cpu {
namespace {

/// 64 elements from the 16 blocks `block` … block + 15. Philox4x32-10 as in core/base/random.h, one block per lane.
LACONIC_MULTIVERSION void mask_row(std::uint8_t* keep, std::int64_t first, std::int64_t count, std::uint32_t row,
                                   DropoutMask mask) {
  constexpr int kLanes = 16;
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

}  // namespace

void dropout_mask_part(std::uint8_t* keep, std::int64_t first, std::int64_t count, std::uint32_t row,
                       const DropoutMask& mask) {
  mask_row(keep, first, count, row, mask);
}

void dropout_mask(std::uint8_t* keep, std::int64_t rows, std::int64_t per_row, const DropoutMask& mask) {
  parallel_for(rows, std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(per_row, 1)),
               [=](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n)
                   mask_row(keep + n * per_row, 0, per_row, mask.first_row + static_cast<std::uint32_t>(n), mask);
               });
}

}  // namespace laconic::cpu
