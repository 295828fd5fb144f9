#include "apps/bench/read_pass.h"

#include <algorithm>
#include <vector>

#include "core/cpu/simd.h"
#include "core/parallel.h"

namespace laconic {
namespace {

LACONIC_MULTIVERSION void sum_of_magnitudes(const float* x, std::int64_t n, float* sums) {
  cpu::HalfLanes lanes[8] = {};
  const cpu::HalfLanes zero{};
  for (std::int64_t i = 0; i + 64 <= n; i += 64)
#pragma GCC unroll 8
    for (int l = 0; l < 8; ++l) {
      cpu::HalfLanes v;
      cpu::load(v, x + i + 8 * l);
      lanes[l] = lanes[l] + (v < zero ? -v : v);
    }
  cpu::store(sums, lanes[0] + lanes[2] + lanes[4] + lanes[6]);
  cpu::store(sums + 8, lanes[1] + lanes[3] + lanes[5] + lanes[7]);
}

}  // namespace

double read_pass(const float* x, std::int64_t n) {
  constexpr std::int64_t kChunk = 65536;
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<float> sums(static_cast<std::size_t>(16 * chunks));
  parallel_for(chunks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c)
      sum_of_magnitudes(x + c * kChunk, std::min(kChunk, n - c * kChunk), sums.data() + 16 * c);
  });
  double sum = 0;
  for (const float s : sums) sum += static_cast<double>(s);
  return sum;
}

}  // namespace laconic
