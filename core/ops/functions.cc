#include "core/ops/functions.h"

#include "core/kernels/elementwise.h"
#include "core/ops/common.h"
#include "core/ops/reduce.h"
#include "core/ops/reshape.h"

namespace laconic {

Shape broadcast_shape(const char* what, const Shape& a, const Shape& b) {
  std::array<std::int64_t, Shape::kMaxRank> dims{};
  const int rank = std::max(a.rank(), b.rank());
  for (int d = 0; d < rank; ++d) {
    const std::int64_t of_a = d < a.rank() ? a[a.rank() - 1 - d] : 1, of_b = d < b.rank() ? b[b.rank() - 1 - d] : 1;
    require<ShapeError>(of_a == of_b || of_a == 1 || of_b == 1, what, ": ", a, " and ", b,
                        " do not broadcast: from the right, extents must be equal, or one of them 1.");
    dims[static_cast<std::size_t>(rank - 1 - d)] = of_a == 1 ? of_b : of_a;
  }
  return Shape(std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(rank)));
}

StridedWalk::Strides broadcast_strides(const Shape& from, const Shape& to) {
  const StridedWalk::Strides own = strides_of(from);
  StridedWalk::Strides s{};
  const int missing = to.rank() - from.rank();
  for (int d = 0; d < from.rank(); ++d)
    s[static_cast<std::size_t>(d + missing)] = from[d] == 1 ? 0 : own[static_cast<std::size_t>(d)];
  return s;
}

inline namespace ops {
namespace {

/// forward(y, x) and backward(dx, dy, v) where the memory lies; v is y or x.
template <class Forward, class Backward>
Tensor function_of(const char* what, const Tensor& x, bool keeps_y, Forward forward, Backward backward) {
  require_real(what, x);
  const Tensor y = Tensor::like(x);
  forward(y, x);
  return record(what, y, {x}, [v = keeps_y ? y : x.value(), backward](const Tensor& gradient, Grads& grads) {
    grads.put(0, elementwise_gradient(gradient, v, [&](const Tensor& dx, const Tensor& dy) { backward(dx, dy, v); }));
  });
}

/// Two tensors as kernels read them, and how they meet.
struct Met {
  Tensor a, b;
  Device device;  ///< the result's device
  Shape shape;
  StridedWalk walk;
};
Met meet(const char* what, const Tensor& a0, const Tensor& b0) {
  const Device device = require_one_device(what, {{"a", a0}, {"b", b0}});
  const bool alike = a0.shape() == b0.shape() && a0.dtype() == DType::bf16 && b0.dtype() == DType::bf16;
  const Tensor a = alike ? a0.value() : floats(what, a0), b = alike ? b0.value() : floats(what, b0);
  if (a.shape() == b.shape()) return {a, raw::to_layout(b, a.layout()), device, a.shape(), StridedWalk(a.elements())};
  const Shape shape = broadcast_shape(what, a.shape(), b.shape());
  const std::array strides{broadcast_strides(a.shape(), shape), broadcast_strides(b.shape(), shape)};
  return {raw::to_layout(a, Layout::plain), raw::to_layout(b, Layout::plain), device, shape,
          StridedWalk(shape, strides)};
}

/// For what they make.
Tensor empty_for(const Met& m, DType dtype) {
  return Tensor::empty(m.shape, dtype, m.device, m.a.shape() == m.shape ? m.a.layout() : Layout::plain);
}

/// Hands `gradient`, which has the shape of the result, to input i of this shape.
void put_to(Grads& grads, int i, const Tensor& gradient, const Shape& shape) {
  grads.put(i, gradient.shape() == shape ? gradient : sum_to(gradient, shape));
}

}  // namespace

#define LACONIC_OPERATION(operation, cost, formula, kept, gradient)                                                  \
  Tensor operation(const Tensor& x) {                                                                                \
    return function_of(                                                                                              \
        #operation, x, #kept[0] == 'y',                                                                              \
        [](const Tensor& y, const Tensor& in) {                                                                      \
          LACONIC_REAL_KERNEL(in, operation##_forward(y.data<Real>(), in.data<Real>(), in.elements()));              \
        },                                                                                                           \
        [](const Tensor& dx, const Tensor& dy, const Tensor& v) {                                                    \
          LACONIC_REAL_KERNEL(v,                                                                                     \
                              operation##_backward(dx.data<Real>(), dy.data<Real>(), v.data<Real>(), v.elements())); \
        });                                                                                                          \
  }
LACONIC_FUNCTIONS(LACONIC_OPERATION)

/// name(x, a), for the functions below.
#define LACONIC_OPERATION_OF_CONSTANT(name, cost, formula, gradient)                                                  \
  static Tensor name(const Tensor& x, float c) {                                                                      \
    return function_of(                                                                                               \
        #name, x, false,                                                                                              \
        [c](const Tensor& y, const Tensor& in) {                                                                      \
          LACONIC_REAL_KERNEL(in, name##_forward(y.data<Real>(), in.data<Real>(), c, in.elements()));                 \
        },                                                                                                            \
        [c](const Tensor& dx, const Tensor& dy, const Tensor& v) {                                                    \
          LACONIC_REAL_KERNEL(v, name##_backward(dx.data<Real>(), dy.data<Real>(), v.data<Real>(), c, v.elements())); \
        });                                                                                                           \
  }
LACONIC_FUNCTIONS_OF_CONSTANT(LACONIC_OPERATION_OF_CONSTANT)

Tensor leaky_relu(const Tensor& x, float slope) { return leak(x, slope); }
Tensor pow(const Tensor& x, float exponent) { return power(x, exponent); }
Tensor clamp(const Tensor& x, float low, float high) { return at_most(at_least(x, low), high); }
Tensor add(const Tensor& a, float b) { return add_constant(a, b); }
Tensor subtract(float a, const Tensor& b) { return subtract_from(b, a); }
Tensor multiply(const Tensor& a, float b) { return multiply_by(a, b); }
Tensor divide(const Tensor& a, float b) { return divide_by(a, b); }
Tensor divide(float a, const Tensor& b) { return divide_into(b, a); }

/// y of a and b, unrecorded.
#define LACONIC_JOIN(name, result)                                                            \
  static Tensor name##_of(const Met& m) {                                                     \
    const Tensor y = empty_for(m, m.a.dtype());                                               \
    LACONIC_REAL_KERNEL(y, name(y.data<Real>(), m.a.data<Real>(), m.b.data<Real>(), m.walk)); \
    return y;                                                                                 \
  }
LACONIC_FUNCTIONS_OF_TWO(LACONIC_JOIN)

Tensor add(const Tensor& a, const Tensor& b) {
  return record("add", add_of(meet("add", a, b)), {a, b},
                [of_a = a.shape(), of_b = b.shape()](const Tensor& dy, Grads& grads) {
                  if (grads.wants(0)) put_to(grads, 0, dy, of_a);
                  if (grads.wants(1)) put_to(grads, 1, dy, of_b);
                });
}

Tensor subtract(const Tensor& a, const Tensor& b) {
  return record("subtract", subtract_of(meet("subtract", a, b)), {a, b},
                [of_a = a.shape(), of_b = b.shape()](const Tensor& dy, Grads& grads) {
                  if (grads.wants(0)) put_to(grads, 0, dy, of_a);
                  if (grads.wants(1)) put_to(grads, 1, multiply(dy, -1.0f), of_b);
                });
}

Tensor multiply(const Tensor& a, const Tensor& b) {
  return record("multiply", multiply_of(meet("multiply", a, b)), {a, b},
                [a = a.value(), b = b.value()](const Tensor& dy, Grads& grads) {
                  if (grads.wants(0)) put_to(grads, 0, multiply(dy, b), a.shape());
                  if (grads.wants(1)) put_to(grads, 1, multiply(dy, a), b.shape());
                });
}

Tensor divide(const Tensor& a, const Tensor& b) {
  const Tensor y = divide_of(meet("divide", a, b));
  return record("divide", y, {a, b}, [y, of_a = a.shape(), b = b.value()](const Tensor& dy, Grads& grads) {
    const Tensor da = divide(dy, b);
    if (grads.wants(0)) put_to(grads, 0, da, of_a);
    if (grads.wants(1)) put_to(grads, 1, multiply(multiply(da, y), -1.0f), b.shape());
  });
}

Tensor pow(const Tensor& a, const Tensor& b) {
  const Tensor y = pow_of(meet("pow", a, b));
  return record("pow", y, {a, b}, [y, a = a.value(), b = b.value()](const Tensor& dy, Grads& grads) {
    const Tensor zero = Tensor::full({1}, 0, a.device());
    if (grads.wants(0))  // a^0 stays 1 when a changes, and 0 / 0 would be no number
      put_to(grads, 0, multiply(dy, where(equal(b, zero), zero, multiply(b, pow(a, add(b, -1.0f))))), a.shape());
    if (grads.wants(1)) {  // 0^b stays 0 when b grows, and 0 log 0 would be no number
      const Tensor slope = where(equal(y, zero), zero, multiply(y, log(a)));
      put_to(grads, 1, multiply(dy, where(equal(a, zero), where(less(b, zero), slope, zero), slope)), b.shape());
    }
  });
}

/// The larger, or the smaller: the gradient goes where the result came from.
static Tensor chosen(const char* what, const Tensor& y, const Tensor& a, const Tensor& b) {
  return record(what, y, {a, b}, [y, a = a.value(), of_b = b.shape()](const Tensor& dy, Grads& grads) {
    const Tensor zero = Tensor::full({1}, 0, dy.device()), from_a = equal(a, y);
    if (grads.wants(0)) put_to(grads, 0, where(from_a, dy, zero), a.shape());
    if (grads.wants(1)) put_to(grads, 1, where(from_a, zero, dy), of_b);
  });
}
Tensor maximum(const Tensor& a, const Tensor& b) { return chosen("maximum", maximum_of(meet("maximum", a, b)), a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return chosen("minimum", minimum_of(meet("minimum", a, b)), a, b); }

#define LACONIC_COMPARE(name, result)                                                                                  \
  Tensor name(const Tensor& a, const Tensor& b) {                                                                      \
    const Met m =                                                                                                      \
        meet(#name, raw::to_layout(floats(#name, a), Layout::plain), raw::to_layout(floats(#name, b), Layout::plain)); \
    const Tensor y = empty_for(m, DType::u8);                                                                          \
    LACONIC_KERNEL(y.device(), name(y.data<std::uint8_t>(), m.a.data<float>(), m.b.data<float>(), m.walk));            \
    return y;                                                                                                          \
  }
LACONIC_COMPARISONS(LACONIC_COMPARE)

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require<ShapeError>(condition.dtype() == DType::u8, "where: the condition is ", condition.dtype(),
                      ", not what a comparison gives (uint8).");
  const Device device = require_one_device("where", {{"condition", condition}, {"a", a}, {"b", b}});
  const Shape shape = broadcast_shape("where", broadcast_shape("where", condition.shape(), a.shape()), b.shape());
  const std::array strides{broadcast_strides(condition.shape(), shape), broadcast_strides(a.shape(), shape),
                           broadcast_strides(b.shape(), shape)};
  const Tensor if_true = raw::to_layout(floats("where", a), Layout::plain),
               if_false = raw::to_layout(floats("where", b), Layout::plain);
  const Tensor y = Tensor::empty(shape, DType::f32, device);
  LACONIC_KERNEL(device, where(y.data<float>(), condition.data<std::uint8_t>(), if_true.data<float>(),
                               if_false.data<float>(), StridedWalk(shape, strides)));
  return record("where", y, {a, b}, [condition, of_a = a.shape(), of_b = b.shape()](const Tensor& dy, Grads& grads) {
    const Tensor zero = Tensor::full({1}, 0, dy.device());
    if (grads.wants(0)) put_to(grads, 0, where(condition, dy, zero), of_a);
    if (grads.wants(1)) put_to(grads, 1, where(condition, zero, dy), of_b);
  });
}

Tensor to_float(const Tensor& x) {
  if (x.dtype() == DType::f32) return x;
  if (x.dtype() == DType::bf16)
    return record("to_float", raw::cast(x, DType::f32), {x}, [](const Tensor& dy, Grads& grads) { grads.put(0, dy); });
  if (x.dtype() != DType::u8) return Tensor::of(x.shape(), x.to_vector(), x.device());
  const Tensor y = Tensor::empty(x.shape(), DType::f32, x.device(), x.layout());
  LACONIC_KERNEL(y.device(), cast(y.data<float>(), x.data<std::uint8_t>(), x.elements()));
  return y;
}

Tensor sum_to(const Tensor& y, const Shape& shape) {
  std::vector<int> over;
  const int missing = y.rank() - shape.rank();
  for (int d = 0; d < y.rank(); ++d)
    if (d < missing || (shape[d - missing] == 1 && y.dim(d) != 1)) over.push_back(d);
  return reshape(sum(y, over), shape);
}

}  // namespace ops
}  // namespace laconic
