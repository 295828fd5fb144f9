// INCEPTIONN (Li et al. 2018), plainly and slowly: Algorithm 1, the ring of all nodes, lines 8 to 18; Algorithms 2 and
// 3, the codec, one value at a time. Their lines have no numbers in print.
//
// Settled (docs/papers/inceptionn.md): in Algorithm 1 the second loop is printed one block too far, the text (P2) is
// right; the codec is on every hop (section VI), and who finishes a block goes on with what the others read.
//
// As fast in the product: dist/collective/ring_allreduce.cc (Algorithm 1), compress/inceptionn/kernels.cc and
// compress/cuda/inceptionn.cu (Algorithms 2 and 3).
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace laconic::reference {

/// v and t of Algorithm 2.
struct CodedValue {
  unsigned tag;  ///< t: 0, 1, 2, 3 are v of 0, 8, 16, 32 bits
  std::uint32_t payload;
  bool operator==(const CodedValue&) const = default;
};

/// Algorithm 2. error_bound : the exponent of the bound, as floats hold it; 117 is 2^-10
inline CodedValue compress(int error_bound, std::uint32_t f) {
  const std::uint32_t s = f >> 31, m = f & 0x7FFFFF;  // s = f[31], m = f[22:0]
  const int e = static_cast<int>(f >> 23 & 0xFF);     // e = f[30:23]
  if (e >= 127) return {3, f};                        // v = f[31:0], t = NO_COMPRESS
  if (e < error_bound) return {0, 0};                 // v = {}, t = 0BIT_COMPRESS
  const int n_shift = 127 - e;                        // n_shift = 127 - e
  const std::uint32_t one_m = 1u << 23 | m;           // concat(1'b1, m)
  const std::uint32_t shifted_m = n_shift < 24 ? one_m >> n_shift : 0;
  if (e >= error_bound + (127 - error_bound + 1) / 2)  // error_bound + ceil((127 - error_bound) / 2)
    return {2, s << 15 | shifted_m >> 8};              // v = concat(s, shifted_m[22:8]), t = 16BIT_COMPRESS
  return {1, s << 7 | shifted_m >> 16};                // v = concat(s, shifted_m[22:16]), t = 8BIT_COMPRESS
}

/// Algorithm 3.
inline float decompress(CodedValue v) {
  if (v.tag == 3) return std::bit_cast<float>(v.payload);  // f = v[31:0]
  if (v.tag == 0) return 0.0f;                             // f = 32'b0
  const int width = v.tag == 1 ? 7 : 15;
  const std::uint32_t s = v.payload >> width & 1, bits = v.payload & ((1u << width) - 1);
  if (bits == 0) return s ? -0.0f : 0.0f;  // no first 1: settled as 0
  int n_shift = 1;                         // n_shift = first1_loc_from_MSB(v), counted from 1
  while (!(bits >> (width - n_shift) & 1)) ++n_shift;
  const auto e = static_cast<std::uint32_t>(127 - n_shift);  // e = 127 - n_shift
  const std::uint32_t rest = bits & ((1u << (width - n_shift)) - 1);
  return std::bit_cast<float>(s << 31 | e << 23 | rest << (23 - (width - n_shift)));  // concat(s, e, m)
}

/// Algorithm 1, lines 8 to 18, on all nodes at once: g[i] is the gradient of node i, and becomes the sum over nodes as
/// the codec leaves it.
inline void exchange(std::vector<std::vector<float>>& g, int error_bound) {
  const std::size_t N = g.size(), n = g[0].size();
  const auto begin = [&](std::size_t b) { return b * (n / N) + std::min(b, n % N); };  // 8: N blocks
  const auto coded = [&](float x) { return decompress(compress(error_bound, std::bit_cast<std::uint32_t>(x))); };
  for (std::size_t s = 1; N > 1 && s <= 2 * N - 2; ++s) {  // 9 and 14: both loops
    const std::vector<std::vector<float>> sent = g;
    for (std::size_t i = 0; i < N; ++i) {
      const std::size_t left = (i + N - 1) % N, b = (i + 2 * N - s) % N;  // 10, 15: a block of the left node
      for (std::size_t j = begin(b); j < begin(b + 1); ++j) {
        if (s < N) g[i][j] = g[i][j] + coded(sent[left][j]);  // 11: blk[(i - s) % N] += rb
        if (s == N - 1) g[i][j] = coded(g[i][j]);             // finished: as the others will read it
        if (s >= N) g[i][j] = sent[left][j];                  // 16: blk = rb, encoded once
      }
    }
  }
}

}  // namespace laconic::reference
