#include "core/cpu/gru.h"

#include "core/cpu/elementwise.h"
#include "core/cpu/vector_math.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

constexpr std::int64_t kCost = 32;  // of one element of a state: its exponentials

LACONIC_MULTIVERSION void forward_row(float* LACONIC_RESTRICT gates, float* LACONIC_RESTRICT q,
                                      float* LACONIC_RESTRICT h, const float* LACONIC_RESTRICT recurrent,
                                      const float* LACONIC_RESTRICT bias, const float* LACONIC_RESTRICT recurrent_bias,
                                      const float* LACONIC_RESTRICT h_before, std::int64_t hidden) {
  LACONIC_INDEPENDENT
  for (std::int64_t j = 0; j < hidden; ++j) {
    const std::int64_t jz = hidden + j, jn = 2 * hidden + j;
    const float r = fast_sigmoid(gates[j] + bias[j] + recurrent[j] + recurrent_bias[j]);
    const float z = fast_sigmoid(gates[jz] + bias[jz] + recurrent[jz] + recurrent_bias[jz]);
    const float now = recurrent[jn] + recurrent_bias[jn];
    const float n = fast_tanh(gates[jn] + bias[jn] + r * now);
    gates[j] = r, gates[jz] = z, gates[jn] = n;
    q[j] = now;
    h[j] = (1.0f - z) * n + z * h_before[j];
  }
}

LACONIC_MULTIVERSION void backward_row(float* LACONIC_RESTRICT gates, float* LACONIC_RESTRICT drecurrent,
                                       float* LACONIC_RESTRICT dh, const float* LACONIC_RESTRICT q,
                                       const float* LACONIC_RESTRICT h_before, std::int64_t hidden) {
  LACONIC_INDEPENDENT
  for (std::int64_t j = 0; j < hidden; ++j) {
    const std::int64_t jz = hidden + j, jn = 2 * hidden + j;
    const float r = gates[j], z = gates[jz], n = gates[jn], d = dh[j];
    const float dn = d * (1.0f - z) * (1.0f - n * n), dr = dn * q[j] * r * (1.0f - r);
    const float dz = d * (h_before[j] - n) * z * (1.0f - z);
    gates[j] = dr, gates[jz] = dz, gates[jn] = dn;
    drecurrent[j] = dr, drecurrent[jz] = dz, drecurrent[jn] = dn * r;
    dh[j] = d * z;
  }
}

}  // namespace

void gru_cell_forward(float* gates, float* q, float* h, const float* recurrent, const float* bias,
                      const float* recurrent_bias, const float* h_before, std::int64_t batch, std::int64_t hidden) {
  parallel_for(batch, row_grain(hidden, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      forward_row(gates + 3 * b * hidden, q + b * hidden, h + b * hidden, recurrent + 3 * b * hidden, bias,
                  recurrent_bias, h_before + b * hidden, hidden);
  });
}

void gru_cell_backward(float* gates, float* drecurrent, float* dh, const float* q, const float* h_before,
                       std::int64_t batch, std::int64_t hidden) {
  parallel_for(batch, row_grain(hidden, kCost), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      backward_row(gates + 3 * b * hidden, drecurrent + 3 * b * hidden, dh + b * hidden, q + b * hidden,
                   h_before + b * hidden, hidden);
  });
}

}  // namespace laconic::cpu
