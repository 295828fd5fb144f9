// Element-wise kernels, written once: core/cpu/elementwise.cc and core/cuda/elementwise.cu include this.

namespace laconic::LACONIC_DEVICE {

void fill(float* y, float value, std::int64_t n) {
  each(
      n, [=] __device__(float& yi) { yi = value; }, out(y));
}
LACONIC_REAL void add(Real* y, const Real* x, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float xi) { yi += xi; }, y, x);
}
LACONIC_REAL void add(Real* y, const Real* a, const Real* b, std::int64_t n) {
  each(
      n, [] __device__(float& yi, float ai, float bi) { yi = ai + bi; }, out(y), a, b);
}
void axpy(float* y, float a, const float* x, std::int64_t n) {
  each(
      n, [=] __device__(float& yi, float xi) { yi += a * xi; }, y, x);
}
void scale(float* y, float a, std::int64_t n) {
  each(
      n, [=] __device__(float& yi) { yi *= a; }, y);
}

void relu(float* y, std::int64_t n) {
  each(
      n, [] __device__(float& yi) { yi = yi < 0.0f ? 0.0f : yi; }, y);
}

#define LACONIC_FUNCTION(name, cost, forward, kept, backward)                                   \
  LACONIC_REAL void name##_forward(Real* y, const Real* in, std::int64_t n) {                   \
    each<cost>(                                                                                 \
        n, [] __device__(float& yi, float x) { yi = forward; }, out(y), in);                    \
  }                                                                                             \
  LACONIC_REAL void name##_backward(Real* dx, const Real* dy, const Real* of, std::int64_t n) { \
    each<cost>(                                                                                 \
        n, [] __device__(float& d, float g, float v) { d = backward; }, out(dx), dy, of);       \
  }
LACONIC_FUNCTIONS(LACONIC_FUNCTION)
#define LACONIC_FUNCTION_OF_CONSTANT(name, cost, forward, backward)                                         \
  LACONIC_REAL void name##_forward(Real* y, const Real* in, float a, std::int64_t n) {                      \
    each<cost>(                                                                                             \
        n, [=] __device__(float& yi, float x) { yi = forward; }, out(y), in);                               \
  }                                                                                                         \
  LACONIC_REAL void name##_backward(Real* dx, const Real* dy, const Real* of, [[maybe_unused]] float a,     \
                                    std::int64_t n) {                                                       \
    each<cost>(                                                                                             \
        n, [=] __device__(float& d, float g, [[maybe_unused]] float v) { d = backward; }, out(dx), dy, of); \
  }
LACONIC_FUNCTIONS_OF_CONSTANT(LACONIC_FUNCTION_OF_CONSTANT)

#define LACONIC_FUNCTION_OF_TWO(name, result)                                                \
  LACONIC_REAL void name(Real* y, const Real* as, const Real* bs, const StridedWalk& walk) { \
    each_strided(                                                                            \
        walk, [] __device__(float& yi, float a, float b) { yi = result; }, y, as, bs);       \
  }
LACONIC_FUNCTIONS_OF_TWO(LACONIC_FUNCTION_OF_TWO)
#define LACONIC_COMPARISON(name, result)                                                      \
  void name(std::uint8_t* y, const float* as, const float* bs, const StridedWalk& walk) {     \
    each_strided(                                                                             \
        walk, [] __device__(std::uint8_t& yi, float a, float b) { yi = result; }, y, as, bs); \
  }
LACONIC_COMPARISONS(LACONIC_COMPARISON)
void where(float* y, const std::uint8_t* condition, const float* a, const float* b, const StridedWalk& walk) {
  each_strided(
      walk, [] __device__(float& yi, std::uint8_t c, float ai, float bi) { yi = c ? ai : bi; }, y, condition, a, b);
}
void gather_strided(float* y, const float* x, const StridedWalk& walk) {
  each_strided(
      walk, [] __device__(float& yi, float xi) { yi = xi; }, y, x);
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

void increment(std::int64_t* counter) {
  each(
      1, [] __device__(std::int64_t & count) { ++count; }, counter);
}

}  // namespace laconic::LACONIC_DEVICE
