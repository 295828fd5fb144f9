#include "core/cpu/lstm.h"

#include "core/cpu/elementwise.h"
#include "core/cpu/vector_math.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

constexpr std::int64_t kCost = 32;  // of one element of a state: its exponentials

LACONIC_MULTIVERSION void forward_row(float* LACONIC_RESTRICT gates, float* LACONIC_RESTRICT c,
                                      float* LACONIC_RESTRICT h, const float* LACONIC_RESTRICT c_before,
                                      std::int64_t hidden) {
  float *LACONIC_RESTRICT pi = gates, *LACONIC_RESTRICT pf = gates + hidden, *LACONIC_RESTRICT pg = gates + 2 * hidden,
                          *LACONIC_RESTRICT po = gates + 3 * hidden;
  LACONIC_INDEPENDENT
  for (std::int64_t j = 0; j < hidden; ++j) {
    const float i = fast_sigmoid(pi[j]), f = fast_sigmoid(pf[j]), g = fast_tanh(pg[j]), o = fast_sigmoid(po[j]);
    const float now = f * c_before[j] + i * g;
    pi[j] = i, pf[j] = f, pg[j] = g, po[j] = o;
    c[j] = now;
    h[j] = o * fast_tanh(now);
  }
}

LACONIC_MULTIVERSION void backward_row(float* LACONIC_RESTRICT dgates, float* LACONIC_RESTRICT dc,
                                       const float* LACONIC_RESTRICT dh, const float* LACONIC_RESTRICT gates,
                                       const float* LACONIC_RESTRICT c, const float* LACONIC_RESTRICT c_before,
                                       std::int64_t hidden) {
  LACONIC_INDEPENDENT
  for (std::int64_t j = 0; j < hidden; ++j) {
    const float i = gates[j], f = gates[hidden + j], g = gates[2 * hidden + j], o = gates[3 * hidden + j];
    const float t = fast_tanh(c[j]);
    const float d = dc[j] + dh[j] * o * (1.0f - t * t);
    dgates[j] = d * g * i * (1.0f - i);
    dgates[hidden + j] = d * c_before[j] * f * (1.0f - f);
    dgates[2 * hidden + j] = d * i * (1.0f - g * g);
    dgates[3 * hidden + j] = dh[j] * t * o * (1.0f - o);
    dc[j] = d * f;
  }
}

}  // namespace

void lstm_cell_forward(float* gates, float* c, float* h, const float* c_before, std::int64_t batch,
                       std::int64_t hidden) {
  parallel_for(batch, row_grain(hidden, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      forward_row(gates + 4 * b * hidden, c + b * hidden, h + b * hidden, c_before + b * hidden, hidden);
  });
}

void lstm_cell_backward(float* dgates, float* dc, const float* dh, const float* gates, const float* c,
                        const float* c_before, std::int64_t batch, std::int64_t hidden) {
  parallel_for(batch, row_grain(hidden, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      backward_row(dgates + 4 * b * hidden, dc + b * hidden, dh + b * hidden, gates + 4 * b * hidden, c + b * hidden,
                   c_before + b * hidden, hidden);
  });
}

}  // namespace laconic::cpu
