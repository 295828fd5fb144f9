// Included by panels.h for each set of instructions: LACONIC_ISA is its name, LACONIC_TARGET the attribute of its
// functions, LACONIC_VECTOR Lanes or HalfLanes. (A function that is inlined from one for any processor would have its
// broadcasts as shuffles.)

struct LACONIC_ISA {
  using Vector = LACONIC_VECTOR;
  // Each broadcast value serves two vectors: both of one block of 16 columns, or one of each of two blocks. The sums
  // fit the registers.
  static constexpr int kMostRows = sizeof(Vector) == 64 ? 12 : 6;
  static constexpr int kMostBlocks = sizeof(Vector) == 64 ? 2 : 1;

  /// m [K][R][16] = or, with add, += sum over b < blocks and i < n of
  ///     a[b a_block + i kStep + r kRow] u[k u_block + (b n + i) 16 + column]
  /// where m's blocks lie m_block apart.
  template <int K, int R, int kStep, int kRow>
  LACONIC_TARGET LACONIC_ONCE static void product(float* m, std::int64_t m_block, bool add, const float* a,
                                                  std::int64_t a_block, const float* u, std::int64_t u_block,
                                                  std::int64_t blocks, std::int64_t n) {
    constexpr int kLanes = sizeof(Vector) / sizeof(float), kOfBlock = kBlock / kLanes, kParts = K * kOfBlock;
    typedef LACONIC_VECTOR InMemory __attribute__((aligned(1), may_alias));
    Vector sums[R][kParts];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int q = 0; q < kParts; ++q)
        sums[r][q] =
            add ? *reinterpret_cast<const InMemory*>(m + q / kOfBlock * m_block + r * kBlock + q % kOfBlock * kLanes)
                : Vector{};
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* const of_block = a + b * a_block;
      for (std::int64_t i = 0; i < n; ++i, u += kBlock) {
        Vector right[kParts];
#pragma GCC unroll 2
        for (int q = 0; q < kParts; ++q)
          right[q] = *reinterpret_cast<const InMemory*>(u + q / kOfBlock * u_block + q % kOfBlock * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const float left = of_block[i * kStep + r * kRow];
#pragma GCC unroll 2
          for (int q = 0; q < kParts; ++q) sums[r][q] += left * right[q];
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int q = 0; q < kParts; ++q)
        *reinterpret_cast<InMemory*>(m + q / kOfBlock * m_block + r * kBlock + q % kOfBlock * kLanes) = sums[r][q];
  }
};

#undef LACONIC_ISA
#undef LACONIC_TARGET
#undef LACONIC_VECTOR
