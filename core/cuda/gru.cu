#include "core/cuda/cells.cuh"
#include "core/cuda/gru.h"

namespace laconic::cuda {

void gru_cell_forward(float* gates, float* q, float* h, const float* recurrent, const float* bias,
                      const float* recurrent_bias, const float* h_before, std::int64_t batch, std::int64_t hidden) {
  each_cell(batch, hidden, [=] __device__(std::int64_t b, std::int64_t j) {
    float* row = gates + 3 * b * hidden;
    const float* part = recurrent + 3 * b * hidden;
    const std::int64_t jz = hidden + j, jn = 2 * hidden + j, at = b * hidden + j;
    const float r = sigmoid(row[j] + bias[j] + part[j] + recurrent_bias[j]);
    const float z = sigmoid(row[jz] + bias[jz] + part[jz] + recurrent_bias[jz]);
    const float now = part[jn] + recurrent_bias[jn];
    const float n = tanhf(row[jn] + bias[jn] + r * now);
    row[j] = r, row[jz] = z, row[jn] = n;
    q[at] = now;
    h[at] = (1.0f - z) * n + z * h_before[at];
  });
}

void gru_cell_backward(float* gates, float* drecurrent, float* dh, const float* q, const float* h_before,
                       std::int64_t batch, std::int64_t hidden) {
  each_cell(batch, hidden, [=] __device__(std::int64_t b, std::int64_t j) {
    float *row = gates + 3 * b * hidden, *part = drecurrent + 3 * b * hidden;
    const std::int64_t jz = hidden + j, jn = 2 * hidden + j, at = b * hidden + j;
    const float r = row[j], z = row[jz], n = row[jn], d = dh[at];
    const float dn = d * (1.0f - z) * (1.0f - n * n), dr = dn * q[at] * r * (1.0f - r);
    const float dz = d * (h_before[at] - n) * z * (1.0f - z);
    row[j] = dr, row[jz] = dz, row[jn] = dn;
    part[j] = dr, part[jz] = dz, part[jn] = dn * r;
    dh[at] = d * z;
  });
}

}  // namespace laconic::cuda
