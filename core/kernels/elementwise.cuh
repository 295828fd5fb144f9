// Element-wise kernels, written once: core/cpu/elementwise.cc and core/cuda/elementwise.cu include this.

namespace laconic::LACONIC_DEVICE {

void fill(float* y, float value, std::int64_t n) {
  each(
      n, [=] __device__(float& yi) { yi = value; }, out(y));
}
void add(float* y, const float* x, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float xi) { yi += xi; }, y, x);
}
void add(float* y, const float* a, const float* b, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float ai, float bi) { yi = ai + bi; }, out(y), a, b);
}
void multiply(float* y, const float* a, const float* b, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float ai, float bi) { yi = ai * bi; }, out(y), a, b);
}
void axpy(float* y, float a, const float* x, std::int64_t n) {
  each(
      n, [=] __device__(float& yi, float xi) { yi += a * xi; }, y, x);
}
void scale(float* y, float a, std::int64_t n) {
  each(
      n, [=] __device__(float& yi) { yi *= a; }, y);
}

// NaN stays NaN (as in PyTorch), so that a broken layer is seen and not hidden.
void relu(float* y, std::int64_t n) {
  each(
      n, [] __device__(float& yi) { yi = yi < 0.0f ? 0.0f : yi; }, y);
}
void relu(float* y, const float* x, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float xi) { yi = xi < 0.0f ? 0.0f : xi; }, out(y), x);
}
void relu_backward(float* dx, const float* dy, const float* y, std::int64_t n) {
  each(
      n, [] __device__(float& d, float g, float yi) { d = yi > 0.0f ? g : 0.0f; }, out(dx), dy, y);
}
void tanh_forward(float* y, const float* x, std::int64_t n) {
  each<8>(
      n, [] __device__(float& yi, float xi) { yi = tanhf(xi); }, out(y), x);
}
void tanh_backward(float* dx, const float* dy, const float* y, std::int64_t n) {
  each(
      n, [] __device__(float& d, float g, float yi) { d = g * (1.0f - yi * yi); }, out(dx), dy, y);
}
void sigmoid_forward(float* y, const float* x, std::int64_t n) {
  each<8>(
      n, [] __device__(float& yi, float xi) { yi = 1.0f / (1.0f + expf(-xi)); }, out(y), x);
}
void sigmoid_backward(float* dx, const float* dy, const float* y, std::int64_t n) {
  each(
      n, [] __device__(float& d, float g, float yi) { d = g * yi * (1.0f - yi); }, out(dx), dy, y);
}

void fill_times(float* y, float a, const float* b, std::int64_t n) {
  each(
      n, [=] __device__(float& yi) { yi = a * *b; }, out(y));
}
void scale_times(float* y, const float* x, float a, const float* b, std::int64_t n) {
  each(
      n, [=] __device__(float& yi, float xi) { yi = a * *b * xi; }, out(y), x);
}

void dropout_apply(float* y, const float* x, const std::uint8_t* keep, float scale, std::int64_t n) {
  each(
      n, [=] __device__(float& yi, float xi, std::uint8_t kept) { yi = kept ? scale * xi : 0.0f; }, out(y), x, keep);
}

void to_bf16(BFloat16* y, const float* x, std::int64_t n) {
  each(
      n, [] __device__(BFloat16 & yi, float xi) { yi = rounded(xi); }, out(y), x);
}

void increment(std::int64_t* counter) {
  each(
      1, [] __device__(std::int64_t & count) { ++count; }, counter);
}

}  // namespace laconic::LACONIC_DEVICE
