#pragma once
#include <cstdint>

/// Rows of logits [rows, classes] against labels [rows], as core/cpu/softmax.h. A label that is no class is told to the
/// host (core/cuda/report.h); its row's loss is NaN.
namespace laconic::cuda {

/// loss[0] = the mean of the rows' losses. If not null, stats [rows, 2] receives what backward needs besides x: the
/// row's largest logit and one over the sum of e^(x - largest).
void softmax_cross_entropy(float* loss, float* stats, const float* x, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t classes, float smoothing);
/// dx = dy[0] / rows (p - target), target as on the CPU. dx may be x.
void softmax_cross_entropy_backward(float* dx, const float* x, const float* stats, const std::int64_t* labels,
                                    std::int64_t rows, std::int64_t classes, float smoothing, const float* dy);

// These wait for the device.
double sum_of_cross_entropy(const float* x, const std::int64_t* labels, std::int64_t rows, std::int64_t classes);
std::int64_t count_correct(const float* x, const std::int64_t* labels, std::int64_t rows, std::int64_t classes, int k);

}  // namespace laconic::cuda
