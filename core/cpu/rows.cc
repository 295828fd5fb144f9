#include "core/kernels/rows.h"

#include "core/cpu/each.h"

namespace laconic::cpu {
namespace {

constexpr std::int64_t kCost = 8;  // the cost of one class: its exponential
constexpr int kLanes = 16;         // sums that are kept side by side: vectors, and the same order on every machine

LACONIC_MULTIVERSION float largest_of(const float* x, std::int64_t n) {
  constexpr int kMany = 64;  // a comparison waits for the one before
  float largest = x[0];
  std::int64_t i = 0;
  if (n >= kMany) {
    float lanes[kMany];
    for (int l = 0; l < kMany; ++l) lanes[l] = x[l];
    for (i = kMany; i + kMany <= n; i += kMany)
      for (int l = 0; l < kMany; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (float lane : lanes) largest = lane > largest ? lane : largest;
  }
  for (; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

LACONIC_MULTIVERSION void exponentials(float* e, const float* x, float largest, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t i = 0; i < n; ++i) e[i] = bounded_exp(x[i] - largest);
}

/// sum of e^(x[k] - largest); each is written to e if not null, which may be x.
double sum_of_exponentials(float* e, const float* x, float largest, std::int64_t n) {
  constexpr std::int64_t kBlock = 1024;  // summed while it is near
  float block[kBlock];
  double sum = 0;
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = std::min(kBlock, n - i);
    float* const to = e ? e + i : block;
    exponentials(to, x + i, largest, count);
    sum += sum_part(to, count);
  }
  return sum;
}

LACONIC_MULTIVERSION void scaled(float* dx, const float* e, float factor, float less, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t k = 0; k < n; ++k) dx[k] = factor * e[k] - less;
}

/// In this order a large `a` costs no digits.
LACONIC_MULTIVERSION void less_twice(float* y, const float* x, float a, float b, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t k = 0; k < n; ++k) y[k] = (x[k] - a) - b;
}

LACONIC_MULTIVERSION double sum_of_products(const float* a, const float* b, std::int64_t n) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) lanes[l] += static_cast<double>(a[i + l]) * b[i + l];
  double sum = 0;
  for (double lane : lanes) sum += lane;
  for (; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}
/// The place of the largest of sign x[0 … n), of equals the first; of the first NaN, if there is one.
LACONIC_MULTIVERSION std::int64_t place_of_extreme(const float* x, float sign, std::int64_t n) {
  float lanes[kLanes];
  std::uint32_t no_numbers[kLanes] = {};
  for (float& lane : lanes) lane = sign * x[0];
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int l = 0; l < kLanes; ++l) {
      const float v = sign * x[i + l];
      lanes[l] = v > lanes[l] ? v : lanes[l];
      no_numbers[l] |= v != v;
    }
  float best = lanes[0];
  std::uint32_t any = x[0] != x[0];
  for (int l = 0; l < kLanes; ++l) best = lanes[l] > best ? lanes[l] : best, any |= no_numbers[l];
  for (; i < n; ++i) {
    const float v = sign * x[i];
    best = v > best ? v : best, any |= v != v;
  }
  std::int64_t place = 0;
  while (any ? x[place] == x[place] : sign * x[place] != best) ++place;
  return place;
}
constexpr std::int64_t kColumns = 64;  // whose sums stay in registers and the first cache
LACONIC_MULTIVERSION void sum_columns(float* y, const float* x, std::int64_t n, std::int64_t stride,
                                      std::int64_t columns, float scale) {
  double sums[kColumns] = {};
  std::int64_t r = 0;
  for (; r + 4 <= n; r += 4) {  // the order of sum_part()
    const float* const row = x + r * stride;
    for (std::int64_t j = 0; j < columns; ++j)
      sums[j] += (row[j] + row[stride + j]) + (row[2 * stride + j] + row[3 * stride + j]);
  }
  for (; r < n; ++r)
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += x[r * stride + j];
  for (std::int64_t j = 0; j < columns; ++j) y[j] = static_cast<float>(scale * sums[j]);
}
LACONIC_MULTIVERSION void softmax_row_backward(float* dx, const float* dy, const float* y, float sum, std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t k = 0; k < n; ++k) dx[k] = y[k] * (dy[k] - sum);
}
LACONIC_MULTIVERSION void log_softmax_row_backward(float* dx, const float* dy, const float* y, float sum,
                                                   std::int64_t n) {
  LACONIC_INDEPENDENT
  for (std::int64_t k = 0; k < n; ++k) dx[k] = dy[k] - full_exp(y[k]) * sum;
}

/// f(o, i0, i1) for parts of all columns, in parallel.
template <class F>
void each_column_block(std::int64_t outer, std::int64_t n, std::int64_t inner, F f) {
  const std::int64_t blocks = (inner + kColumns - 1) / kColumns;
  parallel_for(outer * blocks, row_grain(n * std::min(inner, kColumns)), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t i0 = b % blocks * kColumns;
      f(b / blocks, i0, std::min(i0 + kColumns, inner));
    }
  });
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
      const double sum = sum_of_exponentials(e ? e + i * classes : nullptr, row, largest, classes);
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

void sum_middle(float* y, const float* x, std::int64_t outer, std::int64_t n, std::int64_t inner, float scale) {
  if (inner != 1)
    return each_column_block(outer, n, inner, [=](std::int64_t o, std::int64_t i0, std::int64_t i1) {
      sum_columns(y + o * inner + i0, x + o * n * inner + i0, n, inner, i1 - i0, scale);
    });
  constexpr std::int64_t kChunk = 65536;  // a longer row is shared by all threads
  if (n <= kChunk)
    return parallel_for(outer, row_grain(n), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) y[o] = static_cast<float>(scale * sum_part(x + o * n, n));
    });
  const std::int64_t chunks = (n + kChunk - 1) / kChunk;
  std::vector<double> sums(static_cast<std::size_t>(outer * chunks));
  parallel_for(outer * chunks, row_grain(kChunk), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int64_t first = c % chunks * kChunk;
      sums[static_cast<std::size_t>(c)] = sum_part(x + c / chunks * n + first, std::min(kChunk, n - first));
    }
  });
  for (std::int64_t o = 0; o < outer; ++o) {
    double sum = 0;
    for (std::int64_t c = 0; c < chunks; ++c) sum += sums[static_cast<std::size_t>(o * chunks + c)];
    y[o] = static_cast<float>(scale * sum);
  }
}

void extreme_middle(float* y, std::int64_t* index, const float* x, std::int64_t outer, std::int64_t n,
                    std::int64_t inner, bool largest) {
  if (inner == 1)
    return parallel_for(outer, row_grain(n), [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        index[o] = place_of_extreme(x + o * n, largest ? 1.0f : -1.0f, n);
        y[o] = x[o * n + index[o]];
      }
    });
  each_column_block(outer, n, inner, [=](std::int64_t o, std::int64_t i0, std::int64_t i1) {
    float* best = y + o * inner;
    std::int64_t* place = index + o * inner;
    const float* from = x + o * n * inner;
    std::copy(from + i0, from + i1, best + i0), std::fill(place + i0, place + i1, 0);
    for (std::int64_t r = 1; r < n; ++r)
      for (std::int64_t i = i0; i < i1; ++i) {
        const float v = from[r * inner + i];
        const bool further = v != v || (largest ? v > best[i] : v < best[i]);
        if (further && best[i] == best[i]) best[i] = v, place[i] = r;
      }
  });
}

void put_middle(float* dx, const float* dy, const std::int64_t* index, std::int64_t outer, std::int64_t n,
                std::int64_t inner) {
  parallel_for(outer, row_grain(n * inner), [=](std::int64_t begin, std::int64_t end) {
    std::fill(dx + begin * n * inner, dx + end * n * inner, 0.0f);
    for (std::int64_t o = begin; o < end; ++o)
      for (std::int64_t i = 0; i < inner; ++i) dx[(o * n + index[o * inner + i]) * inner + i] = dy[o * inner + i];
  });
}

void softmax_rows(float* y, const float* x, std::int64_t rows, std::int64_t classes, bool logarithm) {
  parallel_for(rows, row_grain(classes, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* from = x + i * classes;
      float* to = y + i * classes;
      const float largest = largest_of(from, classes);
      const double sum = sum_of_exponentials(logarithm ? nullptr : to, from, largest, classes);
      if (!logarithm) {
        scaled(to, to, static_cast<float>(1 / sum), 0, classes);
      } else {
        less_twice(to, from, largest, static_cast<float>(std::log(sum)), classes);
      }
    }
  });
}

void softmax_rows_backward(float* dx, const float* dy, const float* y, std::int64_t rows, std::int64_t classes,
                           bool logarithm) {
  parallel_for(rows, row_grain(classes, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t at = i * classes;
      const double sum = logarithm ? sum_part(dy + at, classes) : sum_of_products(dy + at, y + at, classes);
      (logarithm ? log_softmax_row_backward : softmax_row_backward)(dx + at, dy + at, y + at, static_cast<float>(sum),
                                                                    classes);
    }
  });
}

LACONIC_MULTIVERSION static void scatter_part(float* LACONIC_RESTRICT dw, const float* LACONIC_RESTRICT dy,
                                              const std::int64_t* index, std::int64_t n, std::int64_t first,
                                              std::int64_t rows, std::int64_t columns, std::int64_t dim) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t row = index[i] - first;
    if (row < 0 || row >= rows) continue;
    for (std::int64_t j = 0; j < columns; ++j) dw[row * dim + j] += dy[i * dim + j];
  }
}

void embedding_forward(float* y, const float* w, const std::int64_t* index, std::int64_t n, std::int64_t /*vocabulary*/,
                       std::int64_t dim) {
  parallel_for(n, row_grain(dim), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(w + index[i] * dim, dim, y + i * dim);
  });
}

void embedding_backward(float* dw, const float* dy, const std::int64_t* index, std::int64_t n, std::int64_t first,
                        std::int64_t rows, std::int64_t dim) {
  parallel_for(dim, std::max<std::int64_t>(16, row_grain(n)), [=](std::int64_t begin, std::int64_t end) {
    scatter_part(dw + begin, dy + begin, index, n, first, rows, end - begin, dim);
  });
}

}  // namespace laconic::cpu

#include "core/kernels/cells.cuh"  // made of each_cell()
