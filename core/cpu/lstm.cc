#include "core/cpu/lstm.h"

#include "core/cpu/elementwise.h"
#include "core/cpu/vector_math.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

constexpr std::int64_t kCost = 32;  // of one element of a state: its exponentials

LACONIC_MULTIVERSION void forward_row(float* LACONIC_RESTRICT gates, float* LACONIC_RESTRICT c,
                                      float* LACONIC_RESTRICT h, const float* LACONIC_RESTRICT bias,
                                      const float* LACONIC_RESTRICT c_before, std::int64_t hidden) {
  LACONIC_INDEPENDENT
  for (std::int64_t j = 0; j < hidden; ++j) {
    const std::int64_t jf = hidden + j, jg = 2 * hidden + j, jo = 3 * hidden + j;
    const float i = fast_sigmoid(gates[j] + bias[j]), f = fast_sigmoid(gates[jf] + bias[jf]);
    const float g = fast_tanh(gates[jg] + bias[jg]), o = fast_sigmoid(gates[jo] + bias[jo]);
    const float now = f * c_before[j] + i * g;
    gates[j] = i, gates[jf] = f, gates[jg] = g, gates[jo] = o;
    c[j] = now;
    h[j] = o * fast_tanh(now);
  }
}

LACONIC_MULTIVERSION void backward_row(float* LACONIC_RESTRICT gates, float* LACONIC_RESTRICT dc,
                                       const float* LACONIC_RESTRICT dy, const float* LACONIC_RESTRICT dh,
                                       const float* LACONIC_RESTRICT c, const float* LACONIC_RESTRICT c_before,
                                       std::int64_t hidden) {
  LACONIC_INDEPENDENT
  for (std::int64_t j = 0; j < hidden; ++j) {
    const std::int64_t jf = hidden + j, jg = 2 * hidden + j, jo = 3 * hidden + j;
    const float i = gates[j], f = gates[jf], g = gates[jg], o = gates[jo];
    const float t = fast_tanh(c[j]), up = dy[j] + dh[j];
    const float d = dc[j] + up * o * (1.0f - t * t);
    gates[j] = d * g * i * (1.0f - i);
    gates[jf] = d * c_before[j] * f * (1.0f - f);
    gates[jg] = d * i * (1.0f - g * g);
    gates[jo] = up * t * o * (1.0f - o);
    dc[j] = d * f;
  }
}

}  // namespace

void lstm_cell_forward(float* gates, float* c, float* h, const float* bias, const float* c_before, std::int64_t batch,
                       std::int64_t hidden) {
  parallel_for(batch, row_grain(hidden, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      forward_row(gates + 4 * b * hidden, c + b * hidden, h + b * hidden, bias, c_before + b * hidden, hidden);
  });
}

void lstm_cell_backward(float* gates, float* dc, const float* dy, const float* dh, const float* c,
                        const float* c_before, std::int64_t batch, std::int64_t hidden) {
  parallel_for(batch, row_grain(hidden, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      backward_row(gates + 4 * b * hidden, dc + b * hidden, dy + b * hidden, dh + b * hidden, c + b * hidden,
                   c_before + b * hidden, hidden);
  });
}

}  // namespace laconic::cpu
