#include "core/cpu/conv_weights.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/cpu/onednn.h"
#include "core/base/parallel.h"
#include "core/base/random.h"

namespace laconic {
namespace {

std::vector<float> random_values(std::size_t n, std::uint64_t stream) {
  Random random(1, Purpose::test, stream);
  std::vector<float> v(n);
  for (float& x : v) x = random.normal();
  return v;
}

/// Where weight (o, i, k) stands in the order 16i16o.
std::size_t place(std::int64_t o, std::int64_t i, std::int64_t k, std::int64_t I, std::int64_t K) {
  return static_cast<std::size_t>((((o / 16 * (I / 16) + i / 16) * K + k) * 16 + i % 16) * 16 + o % 16);
}

TEST(ConvWeights, StandWhereTheIndexFormulaSaysForAnyKernelAndThreads) {
  if (!cpu::has_avx512()) GTEST_SKIP() << "this processor has no AVX-512, so blocked weights are not used";
  for (const int threads : {1, 2})
    for (const std::int64_t O : {16, 48})
      for (const std::int64_t I : {16, 32})
        for (const std::int64_t K : {1, 2, 9, 25}) {
          set_kernel_threads(threads);
          const auto plain = random_values(static_cast<std::size_t>(O * I * K), 0);
          std::vector<float> packed(plain.size()), other(plain.size()), back = random_values(plain.size(), 1);
          const auto before = back;
          cpu::pack_16i16o(packed.data(), plain.data(), O, I, K);
          cpu::transpose_16i16o_to_16o16i(other.data(), packed.data(), O, I, K);
          cpu::unpack_16i16o(back.data(), packed.data(), O, I, K, true);
          for (std::int64_t o = 0; o < O; ++o)
            for (std::int64_t i = 0; i < I; ++i)
              for (std::int64_t k = 0; k < K; ++k) {
                const auto at = static_cast<std::size_t>((o * I + i) * K + k);
                const std::size_t tile = place(o, i, k, I, K) / 256 * 256;
                ASSERT_EQ(packed[place(o, i, k, I, K)], plain[at])
                    << O << " " << I << " " << K << " at " << o << " " << i << " " << k;
                ASSERT_EQ(other[tile + static_cast<std::size_t>(o % 16 * 16 + i % 16)], plain[at]);
                ASSERT_EQ(back[at], before[at] + plain[at]);
              }
          cpu::unpack_16i16o(back.data(), packed.data(), O, I, K, false);
          ASSERT_EQ(back, plain);
        }
  set_kernel_threads(1);
}

}  // namespace
}  // namespace laconic
