// The cells of recurrent layers, written once: core/cpu/rows.cc and core/cuda/rows.cu include this.

namespace laconic::LACONIC_DEVICE {

void lstm_cell_forward(float* gates, float* c, float* h, const float* bias, const float* c_before, std::int64_t batch,
                       std::int64_t hidden) {
  each_cell(batch, hidden, [=] __device__(std::int64_t b, std::int64_t j) {
    float* row = gates + 4 * b * hidden;
    const std::int64_t jf = hidden + j, jg = 2 * hidden + j, jo = 3 * hidden + j, at = b * hidden + j;
    const float i = sigmoid_of(row[j] + bias[j]), f = sigmoid_of(row[jf] + bias[jf]);
    const float g = tanh_of(row[jg] + bias[jg]), o = sigmoid_of(row[jo] + bias[jo]);
    const float now = f * c_before[at] + i * g;
    row[j] = i, row[jf] = f, row[jg] = g, row[jo] = o;
    c[at] = now;
    h[at] = o * tanh_of(now);
  });
}

void lstm_cell_backward(float* gates, float* dc, const float* dy, const float* dh, const float* c,
                        const float* c_before, std::int64_t batch, std::int64_t hidden) {
  each_cell(batch, hidden, [=] __device__(std::int64_t b, std::int64_t j) {
    float* row = gates + 4 * b * hidden;
    const std::int64_t jf = hidden + j, jg = 2 * hidden + j, jo = 3 * hidden + j, at = b * hidden + j;
    const float i = row[j], f = row[jf], g = row[jg], o = row[jo];
    const float t = tanh_of(c[at]), up = dy[at] + dh[at];
    const float d = dc[at] + up * o * (1.0f - t * t);
    row[j] = d * g * i * (1.0f - i);
    row[jf] = d * c_before[at] * f * (1.0f - f);
    row[jg] = d * i * (1.0f - g * g);
    row[jo] = up * t * o * (1.0f - o);
    dc[at] = d * f;
  });
}

void gru_cell_forward(float* gates, float* q, float* h, const float* recurrent, const float* bias,
                      const float* recurrent_bias, const float* h_before, std::int64_t batch, std::int64_t hidden) {
  each_cell(batch, hidden, [=] __device__(std::int64_t b, std::int64_t j) {
    float* row = gates + 3 * b * hidden;
    const float* part = recurrent + 3 * b * hidden;
    const std::int64_t jz = hidden + j, jn = 2 * hidden + j, at = b * hidden + j;
    const float r = sigmoid_of(row[j] + bias[j] + part[j] + recurrent_bias[j]);
    const float z = sigmoid_of(row[jz] + bias[jz] + part[jz] + recurrent_bias[jz]);
    const float now = part[jn] + recurrent_bias[jn];
    const float n = tanh_of(row[jn] + bias[jn] + r * now);
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

}  // namespace laconic::LACONIC_DEVICE
