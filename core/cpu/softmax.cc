#include "core/cpu/softmax.h"

#include <algorithm>
#include <cmath>

#include "core/cpu/elementwise.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {
constexpr std::int64_t kCost = 8;  // of one class: its exponential
}  // namespace

std::int64_t first_bad_label(const std::int64_t* labels, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t i = 0; i < rows; ++i)
    if (labels[i] < 0 || labels[i] >= classes) return i;
  return -1;
}

void softmax_cross_entropy(double* loss, float* p, const float* x, const std::int64_t* labels, std::int64_t rows,
                           std::int64_t classes, float smoothing) {
  parallel_for(rows, row_grain(classes, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = x + i * classes;
      float largest = row[0];
      double sum_of_logits = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        largest = std::max(largest, row[k]);
        sum_of_logits += row[k];
      }
      double sum = 0;
      for (std::int64_t k = 0; k < classes; ++k) {
        const float e = std::exp(row[k] - largest);
        if (p) p[i * classes + k] = e;
        sum += e;
      }
      const double log_sum = largest + std::log(sum);
      loss[i] = (1.0 - smoothing) * (log_sum - row[labels[i]]);
      if (smoothing != 0) loss[i] += smoothing * (log_sum - sum_of_logits / static_cast<double>(classes));
      if (p) {
        const float inverse = static_cast<float>(1.0 / sum);
        for (std::int64_t k = 0; k < classes; ++k) p[i * classes + k] *= inverse;
      }
    }
  });
}

void softmax_cross_entropy_backward(float* dx, const float* p, const std::int64_t* labels, std::int64_t rows,
                                    std::int64_t classes, float smoothing, float scale) {
  const float everywhere = smoothing / static_cast<float>(classes);
  parallel_for(rows, row_grain(classes, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (std::int64_t k = i * classes; k < (i + 1) * classes; ++k) dx[k] = scale * (p[k] - everywhere);
      dx[i * classes + labels[i]] -= scale * (1.0f - smoothing);
    }
  });
}

std::int64_t count_correct(const float* x, const std::int64_t* labels, std::int64_t rows, std::int64_t classes, int k) {
  std::int64_t correct = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const float* row = x + i * classes;
    const std::int64_t label = labels[i];
    std::int64_t better = 0;
    for (std::int64_t c = 0; c < classes; ++c)
      better += c != label && !(row[c] < row[label]) && !(row[c] == row[label] && c > label);
    correct += row[label] == row[label] && better < k;
  }
  return correct;
}

}  // namespace laconic::cpu
