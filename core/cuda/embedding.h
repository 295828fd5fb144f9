#pragma once
#include <cstdint>

/// As core/cpu/embedding.h on the selected device.
namespace laconic::cuda {

/// y[i] = w[index[i]] for n indices into `vocabulary` rows of `dim` floats. An index that is not one of them is told to
/// the host (core/cuda/report.h) and gives zeros.
void embedding_forward(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t vocabulary,
                       std::int64_t dim);
/// dw[index[i] - first] += dy[i] for the indices in [first, first + rows), in the order of i.   dw : [rows, dim]
void embedding_backward(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                        std::int64_t rows, std::int64_t dim);

}  // namespace laconic::cuda
