#pragma once
#include "core/autograd.h"

/// Arithmetic: functions of the elements of one tensor, and of two that meet by NumPy's broadcasting. Names and
/// meanings are PyTorch's; none writes into its inputs. Functions of one tensor give its type. Functions of two give
/// bf16 where both are that and have one shape, else float32. All throw ShapeError naming both shapes if they do not
/// broadcast, or if one lies on a CUDA device and the other does not.
namespace laconic::inline ops {

// Functions of one tensor keep its layout.
Tensor relu(const Tensor& x);  ///< max(x, 0)
Tensor abs(const Tensor& x);   ///< at 0 its gradient is 0
Tensor sqrt(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);  ///< natural
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);  ///< 1 / (1 + e^-x)
Tensor silu(const Tensor& x);     ///< x sigmoid(x)
Tensor gelu(const Tensor& x);     ///< x Phi(x), with the error function itself
/// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is x sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)).
Tensor gelu_tanh(const Tensor& x);
Tensor pow(const Tensor& x, float exponent);
Tensor leaky_relu(const Tensor& x, float slope = 0.01f);  ///< slope x below 0
/// x where it lies between the bounds, else the nearer one. Its gradient is 0 outside.
Tensor clamp(const Tensor& x, float low, float high);

// Functions of two tensors: the result has a's layout if both have one shape, else it is plain.
Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);  ///< a gets the gradient where both are equal
Tensor minimum(const Tensor& a, const Tensor& b);

// u8, 1 where it holds; no gradient.
Tensor less(const Tensor& a, const Tensor& b);
Tensor less_equal(const Tensor& a, const Tensor& b);
Tensor equal(const Tensor& a, const Tensor& b);
Tensor not_equal(const Tensor& a, const Tensor& b);
/// a where the condition (u8) is not 0, else b. float32.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

/// u8, i64 or bf16 as float32; float32 is x itself.
Tensor to_float(const Tensor& x);

/// y as the sum over all that was broadcast from `shape`. What goes backward through broadcasting.
Tensor sum_to(const Tensor& y, const Shape& shape);

Tensor add(const Tensor& a, float b);
Tensor subtract(float a, const Tensor& b);
Tensor multiply(const Tensor& a, float b);
Tensor divide(const Tensor& a, float b);
Tensor divide(float a, const Tensor& b);

}  // namespace laconic::inline ops

namespace laconic {

inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return ops::subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return ops::multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return ops::divide(a, b); }
inline Tensor operator+(const Tensor& a, float b) { return ops::add(a, b); }
inline Tensor operator+(float a, const Tensor& b) { return ops::add(b, a); }
inline Tensor operator-(const Tensor& a, float b) { return ops::add(a, -b); }
inline Tensor operator-(float a, const Tensor& b) { return ops::subtract(a, b); }
inline Tensor operator*(const Tensor& a, float b) { return ops::multiply(a, b); }
inline Tensor operator*(float a, const Tensor& b) { return ops::multiply(b, a); }
inline Tensor operator/(const Tensor& a, float b) { return ops::divide(a, b); }
inline Tensor operator/(float a, const Tensor& b) { return ops::divide(a, b); }
inline Tensor operator-(const Tensor& a) { return ops::multiply(a, -1.0f); }
inline Tensor operator<(const Tensor& a, float b) { return ops::less(a, Tensor::full({1}, b, a.device())); }
inline Tensor operator>(const Tensor& a, float b) { return ops::less(Tensor::full({1}, b, a.device()), a); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return ops::less(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return ops::less(b, a); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return ops::less_equal(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ops::less_equal(b, a); }

}  // namespace laconic
