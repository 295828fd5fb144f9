#pragma once
#include <cstdint>

/// Rows of logits [rows, classes] against labels [rows]; losses in natural logarithms.
namespace laconic::cpu {

/// First row whose label is outside 0 … classes - 1, or -1.
std::int64_t first_bad_label(const std::int64_t* labels, std::int64_t rows, std::int64_t classes);

/// loss[i] = -(1 - smoothing) log p[i, label] - smoothing mean_k log p[i, k], p = softmax(x[i]). log-sum-exp with the
/// row's largest taken out, so that no logit overflows.
/// If not null, e (which may be x) receives p times a factor of its row, and inverse[i] one over that factor.
void softmax_cross_entropy(double* loss, float* e, float* inverse, const float* x, const std::int64_t* labels,
                           std::int64_t rows, std::int64_t classes, float smoothing);
/// dx = scale (p - target), target = (1 - smoothing) at the label + smoothing / classes everywhere. dx may be e.
void softmax_cross_entropy_backward(float* dx, const float* e, const float* inverse, const std::int64_t* labels,
                                    std::int64_t rows, std::int64_t classes, float smoothing, float scale);

/// Rows whose label is among the k largest logits (of equals the lower class counts as larger; NaN is never right).
std::int64_t count_correct(const float* x, const std::int64_t* labels, std::int64_t rows, std::int64_t classes, int k);

}  // namespace laconic::cpu
