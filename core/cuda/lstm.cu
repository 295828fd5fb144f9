#include "core/cuda/cells.cuh"
#include "core/cuda/lstm.h"

namespace laconic::cuda {

void lstm_cell_forward(float* gates, float* c, float* h, const float* bias, const float* c_before, std::int64_t batch,
                       std::int64_t hidden) {
  each_cell(batch, hidden, [=] __device__(std::int64_t b, std::int64_t j) {
    float* row = gates + 4 * b * hidden;
    const std::int64_t jf = hidden + j, jg = 2 * hidden + j, jo = 3 * hidden + j, at = b * hidden + j;
    const float i = sigmoid(row[j] + bias[j]), f = sigmoid(row[jf] + bias[jf]);
    const float g = tanhf(row[jg] + bias[jg]), o = sigmoid(row[jo] + bias[jo]);
    const float now = f * c_before[at] + i * g;
    row[j] = i, row[jf] = f, row[jg] = g, row[jo] = o;
    c[at] = now;
    h[at] = o * tanhf(now);
  });
}

void lstm_cell_backward(float* gates, float* dc, const float* dy, const float* dh, const float* c,
                        const float* c_before, std::int64_t batch, std::int64_t hidden) {
  each_cell(batch, hidden, [=] __device__(std::int64_t b, std::int64_t j) {
    float* row = gates + 4 * b * hidden;
    const std::int64_t jf = hidden + j, jg = 2 * hidden + j, jo = 3 * hidden + j, at = b * hidden + j;
    const float i = row[j], f = row[jf], g = row[jg], o = row[jo];
    const float t = tanhf(c[at]), up = dy[at] + dh[at];
    const float d = dc[at] + up * o * (1.0f - t * t);
    row[j] = d * g * i * (1.0f - i);
    row[jf] = d * c_before[at] * f * (1.0f - f);
    row[jg] = d * i * (1.0f - g * g);
    row[jo] = up * t * o * (1.0f - o);
    dc[at] = d * f;
  });
}

}  // namespace laconic::cuda
