// Included by panels.h for each set of instructions: LACONIC_ISA is its name, LACONIC_TARGET the attribute of its
// functions, LACONIC_VECTOR Lanes or HalfLanes. (A function that is inlined from one for any processor would have its
// broadcasts as shuffles.)

struct LACONIC_ISA {
  using Vector = LACONIC_VECTOR;
  // Each broadcast value serves two vectors: both of one block of 16 columns, or one of each of two blocks. The sums
  // fit the registers. A block of 8 columns is one vector of them.
  template <int kWide>
  static constexpr int kMostRows = kWide < kBlock || sizeof(Vector) == 64 ? 12 : 6;
  template <int kWide>
  static constexpr int kMostBlocks = sizeof(Vector) == 64 && kWide == kBlock ? 2 : 1;

  /// m [K][R][kWide] = or, with add, += sum over b < blocks and i < n of
  ///     a[b a_block + i step + r row] u[k u_block + (b n + i) kWide + column]
  /// where m's blocks lie m_block apart. `step` and `row` are integers, or constants of their own types.
  template <int kWide, int K, int R, class Step, class Row>
  LACONIC_TARGET LACONIC_ONCE static void product(float* m, std::int64_t m_block, bool add, const float* a,
                                                  std::int64_t a_block, Step step, Row row, const float* u,
                                                  std::int64_t u_block, std::int64_t blocks, std::int64_t n) {
    using V = std::conditional_t<kWide * sizeof(float) < sizeof(Vector), HalfLanes, Vector>;
    constexpr int kLanes = sizeof(V) / sizeof(float), kOfBlock = kWide / kLanes, kParts = K * kOfBlock;
    V sums[R][kParts];
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int q = 0; q < kParts; ++q) {
        sums[r][q] = V{};
        if (add) load(sums[r][q], m + q / kOfBlock * m_block + r * kWide + q % kOfBlock * kLanes);
      }
    for (std::int64_t b = 0; b < blocks; ++b) {
      const float* const of_block = a + b * a_block;
      for (std::int64_t i = 0; i < n; ++i, u += kWide) {
        V right[kParts];
#pragma GCC unroll 2
        for (int q = 0; q < kParts; ++q) load(right[q], u + q / kOfBlock * u_block + q % kOfBlock * kLanes);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const float left = of_block[i * step + r * row];
#pragma GCC unroll 2
          for (int q = 0; q < kParts; ++q) sums[r][q] += left * right[q];
        }
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (int q = 0; q < kParts; ++q)
        store(m + q / kOfBlock * m_block + r * kWide + q % kOfBlock * kLanes, sums[r][q]);
  }
};

#undef LACONIC_ISA
#undef LACONIC_TARGET
#undef LACONIC_VECTOR
