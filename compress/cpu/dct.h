#pragma once
#include <cstddef>

namespace laconic::compress::cpu {

/// A matrix in memory: element (i, j) at data[i row + j column].
struct MatrixView {
  const float* data;
  std::size_t row, column;
};

/// C = A B. The terms of each element are added in order, four at a time: the same bits for every set of
/// instructions.
///   a : [m, k]   b : [k, n], its rows one after the other   c : [m, n], likewise; apart from both
void small_product(MatrixView a, const float* b, std::size_t m, std::size_t k, std::size_t n, float* c);

}  // namespace laconic::compress::cpu
