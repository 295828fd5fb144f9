#pragma once
#include <cstdint>

namespace laconic::cpu {

/// y[i] = w[index[i]] for n indices into rows of `dim` floats, all of them inside.
void embedding_forward(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t dim);
/// dw[index[i] - first] += dy[i] for the indices in [first, first + rows), in the order of i whatever the number of
/// threads (they share the columns).   dw : [rows, dim]
void embedding_backward(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                        std::int64_t rows, std::int64_t dim);

}  // namespace laconic::cpu
