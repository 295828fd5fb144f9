#include "core/cpu/each.h"
#include "core/kernels/rows.h"

namespace laconic::cpu {
namespace {

constexpr std::int64_t kCost = 8;  // of one class: its exponential
constexpr int kLanes = 16;  // sums are kept so many side by side: vectors, and the same order on every machine

LACONIC_MULTIVERSION float largest_of(const float* x, std::int64_t n) {
  float lanes[kLanes];
  for (float& lane : lanes) lane = x[0];
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  float largest = lanes[0];
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  for (float lane : lanes) largest = lane > largest ? lane : largest;
  return largest;
}

/// sum of e^(x[k] - largest); each is written to e if not null, which may be x.
LACONIC_MULTIVERSION double exponentials(float* e, const float* x, float largest, std::int64_t n) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    float part[kLanes];
    for (int l = 0; l < kLanes; ++l) part[l] = bounded_exp(x[i + l] - largest);
    if (e)
      for (int l = 0; l < kLanes; ++l) e[i + l] = part[l];
    for (int l = 0; l < kLanes; ++l) lanes[l] += part[l];
  }
  double sum = 0;
  for (; i < n; ++i) {
    const float one = bounded_exp(x[i] - largest);
    if (e) e[i] = one;
    sum += one;
  }
  for (double lane : lanes) sum += lane;
  return sum;
}

LACONIC_MULTIVERSION void scaled(float* dx, const float* e, float factor, float less, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t k = 0; k < n; ++k) dx[k] = factor * e[k] - less;
}
}  // namespace

std::int64_t first_bad_label(const std::int64_t* labels, std::int64_t rows, std::int64_t classes) {
  for (std::int64_t i = 0; i < rows; ++i)
    if (labels[i] < 0 || labels[i] >= classes) return i;
  return -1;
}

void softmax_cross_entropy(double* loss, float* e, float* inverse, const float* x, const std::int64_t* labels,
                           std::int64_t rows, std::int64_t classes, float smoothing) {
  parallel_for(rows, row_grain(classes, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* row = x + i * classes;
      const float largest = largest_of(row, classes), of_label = row[labels[i]];
      double sum_of_logits = 0;
      if (smoothing != 0)
        for (std::int64_t k = 0; k < classes; ++k) sum_of_logits += row[k];
      const double sum = exponentials(e ? e + i * classes : nullptr, row, largest, classes);
      const double log_sum = largest + std::log(sum);
      loss[i] = (1.0 - smoothing) * (log_sum - of_label);
      if (smoothing != 0) loss[i] += smoothing * (log_sum - sum_of_logits / static_cast<double>(classes));
      if (e) inverse[i] = static_cast<float>(1.0 / sum);
    }
  });
}

void softmax_cross_entropy_backward(float* dx, const float* e, const float* inverse, const std::int64_t* labels,
                                    std::int64_t rows, std::int64_t classes, float smoothing, float scale) {
  const float everywhere = smoothing / static_cast<float>(classes);
  parallel_for(rows, row_grain(classes, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      scaled(dx + i * classes, e + i * classes, scale * inverse[i], scale * everywhere, classes);
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
