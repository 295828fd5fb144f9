#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "core/dispatch.h"
#include "core/kernels/strided.h"
#include "core/slice.h"
#include "core/tensor.h"

/// Loops over arrays in the memory of one device. On the CPU they are vectorised, and parallel over kernel_threads()
/// where it pays; on a CUDA device they are asked for, and run later. Results depend on neither. Those over Real
/// (core/dispatch.h) compute in float, and round once where they write bfloat16.
namespace laconic {

LACONIC_DECLARE(void fill(float* y, float value, std::int64_t n));
LACONIC_DECLARE_REAL(void add(Real* y, const Real* x, std::int64_t n));                    ///< y += x
LACONIC_DECLARE_REAL(void add(Real* y, const Real* a, const Real* b, std::int64_t n));     ///< y = a + b
namespace cuda {
void add(float* y, const BFloat16* x, std::int64_t n);  ///< a float32 result
void add(float* y, const BFloat16* a, const BFloat16* b, std::int64_t n);
}  // namespace cuda
LACONIC_DECLARE(void axpy(float* y, float a, const float* x, std::int64_t n));             ///< y += a x
LACONIC_DECLARE(void scale(float* y, float a, std::int64_t n));
LACONIC_DECLARE(void relu(float* y, std::int64_t n));  ///< y = max(y, 0)

// The formatter would take products for pointers.
// clang-format off
/// Functions of one number: X(name, cost, y of x, what backward keeps as v: x or y, dx of g = dy and v). This is all
/// that there is of one: kernels for both devices and the operation (core/ops/functions.h) follow from it. NaN stays
/// NaN, as in PyTorch, so that a broken layer is seen and not hidden.
#define LACONIC_FUNCTIONS(X)                                                                \
  X(relu, 1, x < 0.0f ? 0.0f : x, y, v > 0.0f ? g : 0.0f)                                   \
  X(abs, 1, x < 0.0f ? -x : x, x, v > 0.0f ? g : v < 0.0f ? -g : 0.0f)                      \
  X(sqrt, 2, sqrtf(x), y, g * 0.5f / v)                                                     \
  X(exp, 8, exp_of(x), y, g * v)                                                            \
  X(log, 8, log_of(x), x, g / v)                                                            \
  X(tanh, 8, tanh_of(x), y, g * (1.0f - v * v))                                             \
  X(sigmoid, 8, sigmoid_of(x), y, g * v * (1.0f - v))                                       \
  X(silu, 8, x * sigmoid_of(x), x, g * sigmoid_of(v) * (1.0f + v * (1.0f - sigmoid_of(v)))) \
  X(gelu, 16, x * (0.5f + 0.5f * erf_of(x * 0.70710678f)), x, g * gelu_slope(v))            \
  X(gelu_tanh, 8, x * sigmoid_of(x * (1.59576912f + 0.07135481f * x * x)), x,               \
    g * gelu_tanh_slope(v, sigmoid_of(v * (1.59576912f + 0.07135481f * v * v))))
/// Functions of a number and a constant a: X(name, cost, y of x and a, dx of g = dy, v = x and a).
#define LACONIC_FUNCTIONS_OF_CONSTANT(X)                                 \
  X(add_constant, 1, x + a, g)                                           \
  X(multiply_by, 1, x * a, g * a)                                        \
  X(divide_by, 1, x / a, g / a)                                          \
  X(subtract_from, 1, a - x, -g)                                         \
  X(divide_into, 1, a / x, -g * a / (v * v))                             \
  X(power, 16, powf(x, a), a == 0.0f ? 0.0f : g * a * powf(v, a - 1.0f)) \
  X(at_least, 1, x < a ? a : x, v < a ? 0.0f : g)                        \
  X(at_most, 1, x > a ? a : x, v > a ? 0.0f : g)                         \
  X(leak, 1, x < 0.0f ? a * x : x, v > 0.0f ? g : a * g)
// clang-format on

/// y = f(x);  dx from dy and v. dx may be dy or v.
#define LACONIC_DECLARE_FUNCTION(name, cost, forward, kept, backward)                \
  LACONIC_DECLARE_REAL(void name##_forward(Real* y, const Real* x, std::int64_t n)); \
  LACONIC_DECLARE_REAL(void name##_backward(Real* dx, const Real* dy, const Real* v, std::int64_t n));
LACONIC_FUNCTIONS(LACONIC_DECLARE_FUNCTION)
#define LACONIC_DECLARE_FUNCTION_OF_CONSTANT(name, cost, forward, backward)                   \
  LACONIC_DECLARE_REAL(void name##_forward(Real* y, const Real* x, float a, std::int64_t n)); \
  LACONIC_DECLARE_REAL(void name##_backward(Real* dx, const Real* dy, const Real* v, float a, std::int64_t n));
LACONIC_FUNCTIONS_OF_CONSTANT(LACONIC_DECLARE_FUNCTION_OF_CONSTANT)

/// Functions of two numbers: X(name, y of a and b). Arrays meet as a walk says.
#define LACONIC_FUNCTIONS_OF_TWO(X)   \
  X(add, a + b)                       \
  X(subtract, a - b)                  \
  X(multiply, a* b)                   \
  X(divide, a / b)                    \
  X(pow, powf(a, b))                  \
  X(maximum, a < b || b != b ? b : a) \
  X(minimum, a > b || b != b ? b : a)
/// Comparisons: 1 or 0.
#define LACONIC_COMPARISONS(X) X(less, a < b) X(less_equal, a <= b) X(equal, a == b) X(not_equal, a != b)

#define LACONIC_DECLARE_FUNCTION_OF_TWO(name, result) \
  LACONIC_DECLARE_REAL(void name(Real* y, const Real* a, const Real* b, const StridedWalk& walk));
LACONIC_FUNCTIONS_OF_TWO(LACONIC_DECLARE_FUNCTION_OF_TWO)
#define LACONIC_DECLARE_COMPARISON(name, result) \
  LACONIC_DECLARE(void name(std::uint8_t* y, const float* a, const float* b, const StridedWalk& walk));
LACONIC_COMPARISONS(LACONIC_DECLARE_COMPARISON)
/// y = condition ? a : b
LACONIC_DECLARE(void where(float* y, const std::uint8_t* condition, const float* a, const float* b,
                           const StridedWalk& walk));
/// y = x in another order, or again and again.
LACONIC_DECLARE(void gather_strided(float* y, const float* x, const StridedWalk& walk));
/// y[i] = a b[0] (x[i]): what a loss hands back, whose own gradient is b. y may be x.
LACONIC_DECLARE(void fill_times(float* y, float a, const float* b, std::int64_t n));
LACONIC_DECLARE(void scale_times(float* y, const float* x, float a, const float* b, std::int64_t n));
/// To the nearest, ties to even; NaN stays NaN.
LACONIC_DECLARE(void cast(BFloat16* y, const float* x, std::int64_t n));
LACONIC_DECLARE(void cast(float* y, const BFloat16* x, std::int64_t n));
LACONIC_DECLARE(void cast(float* y, const std::uint8_t* x, std::int64_t n));
LACONIC_DECLARE(void increment(std::int64_t* counter));

// Those that wait for the device. Sums are in double, by chunks of fixed size and in their order: the same for any
// number of threads, and on every CUDA device for data that is aligned alike to 16 bytes.
LACONIC_DECLARE(bool all_finite(const float* x, std::int64_t n));
/// On the CPU each four are added in float first, so that no more than 2^-23 of the sum of magnitudes is lost.
LACONIC_DECLARE(double sum(const float* x, std::int64_t n));
LACONIC_DECLARE(double sum_of_squares(const float* x, std::int64_t n));
/// b[j] (+)= sum_i x[i, j] for x [rows, columns]: the gradient of a bias.
LACONIC_DECLARE_REAL(void sum_rows(float* b, const Real* x, std::int64_t rows, std::int64_t columns, bool add));

namespace cuda {
/// y[0] = a sum x[i],  a sum x[i]^2, on the device.
void sum(float* y, float a, const float* x, std::int64_t n);
void sum_of_squares(float* y, float a, const float* x, std::int64_t n);
double sum_of_squares(std::span<const Slice<const float>> x);  ///< over all of them; waits
}  // namespace cuda

/// y = keep ? scale x : 0. y may be x.
LACONIC_DECLARE(void dropout_apply(float* y, const float* x, const std::uint8_t* keep, float scale, std::int64_t n));

/// Which elements dropout keeps: those whose random word is at least `threshold`, with probability 1 - p. Words are a
/// pure function of (seed, layer, step, first_row + n, e), so that they depend on no thread, batch or worker.
/// Element e is word e / 16 % 4 of Philox block e / 64 * 16 + e % 16: 16 blocks side by side fill 64 elements.
///   counter   {block, row, step, layer}, each modulo 2^32
///   key       philox({seed, Purpose::dropout, 0}) as in core/base/random.h
struct DropoutMask {
  std::array<std::uint32_t, 2> key;
  std::uint32_t threshold, step, layer, first_row;
};
namespace cpu {
/// keep[n, e] for n < rows and e < per_row.
void dropout_mask(std::uint8_t* keep, std::int64_t rows, std::int64_t per_row, const DropoutMask& mask);
/// keep[e] = element first + e of one row, for e < count, on this thread. first: a multiple of 64
void dropout_mask_part(std::uint8_t* keep, std::int64_t first, std::int64_t count, std::uint32_t row,
                       const DropoutMask& mask);
}  // namespace cpu
namespace cuda {
/// Where element e of sample n lies: n * sample + e / inner * outer_step + e % inner * inner_step.
struct DropoutPlaces {
  std::int64_t sample, inner, outer_step, inner_step;
};
/// keep = the mask, y = keep ? scale x : 0. Element e of sample n is where `places` says in all three. y may be x.
void dropout_forward(float* y, std::uint8_t* keep, const float* x, float scale, const DropoutPlaces& places,
                     std::int64_t rows, std::int64_t per_row, const DropoutMask& mask);
}  // namespace cuda

/// The updates of core/raw.h, which has their formulas. buffer: may be null.
struct SgdStep;
struct AdamStep;
LACONIC_DECLARE(void sgd(float* w, const float* g, float* buffer, std::int64_t n, const SgdStep& s));
LACONIC_DECLARE(void adam(float* w, const float* g, float* m, float* v, std::int64_t n, const AdamStep& s));
LACONIC_DECLARE(void clamp(float* x, float limit, std::int64_t n));  ///< to [-limit, limit]; NaN stays

}  // namespace laconic
