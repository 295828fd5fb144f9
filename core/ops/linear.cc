#include "core/ops/linear.h"

#include <algorithm>

#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"
#include "core/ops/common.h"
#include "core/precision.h"

namespace laconic::inline ops {
namespace {

void require_fit(const Tensor& x, const Tensor& w, const Tensor& b) {
  require<ShapeError>(x.rank() == 2 && w.rank() == 2 && x.dim(1) == w.dim(1), "linear: x is ", x.shape(), " but w is ",
                      w.shape(), ": x needs ", w.rank() == 2 ? w.dim(1) : 0,
                      " columns. Flatten x before this layer, or build it with Linear({.in = ",
                      x.elements() / std::max<std::int64_t>(1, x.dim(0)), "}).");
  require<ShapeError>(w.dim(1) >= 1, "linear: x ", x.shape(), " has no columns to make anything of.");
  require<ShapeError>(!b.defined() || (b.rank() == 1 && b.dim(0) == w.dim(0)), "linear: w is ", w.shape(), " but b is ",
                      b.defined() ? b.shape() : Shape{}, ": b needs ", w.dim(0), " elements.");
  require_one_device("linear", {{"x", x}, {"w", w}, {"b", b}});
}

/// Columns [first, first + w.dim(0)) of y, from as many rows of the weights.   x, w : as products read them
void multiply(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, bool relu, std::int64_t first) {
  const std::int64_t rows = x.dim(0), in = x.dim(1), count = w.dim(0), out = y.dim(1);
  if (rows == 0) return;
  float* columns = y.data<float>() + first;
  const Tensor all = b.defined() ? floats("linear", b) : b;
  const float* bias = b.defined() ? all.data<float>() + first : nullptr;
  on_device(
      x.device(),
      [&] { cpu::linear_forward(columns, x.data<float>(), w.data<float>(), bias, rows, in, count, out, relu); },
      [&] {
        cuda::linear_forward(columns, false, cuda::Factor(x), cuda::Factor(w), bias, rows, in, count, out, relu);
      });
}

/// x : as the product read it
Tensor recorded(const Tensor& y, const Tensor& input, const Tensor& x, const Tensor& w, const Tensor& b, bool relu) {
  return record(
      "linear", y, {input, w, b},
      [x, w = w.value(), y_relu = relu ? y : Tensor{}, bias = b.defined()](const Tensor& gradient, Grads& grads) {
        const Tensor dy = y_relu.defined() ? relu_mask(gradient, y_relu) : gradient.value();
        const Tensor factor = raw::cast(dy, x.dtype());
        const std::int64_t rows = x.dim(0), in = x.dim(1), out = w.dim(0);
        weight_gradient(grads, 1, x, factor, rows, in, out);
        if (bias && grads.wants(2)) {
          const Grads::Target db = grads.into(2, {out}, w.device());
          LACONIC_KERNEL(dy.device(), sum_rows(db.tensor.data<float>(), dy.data<float>(), rows, out, db.add));
        }
        if (grads.wants(0)) {
          const Grads::Target dx = grads.into(0, x.shape(), x.device());
          float* to = dx.tensor.data<float>();
          on_device(
              dy.device(),
              [&] { cpu::linear_backward_data(to, dx.add, dy.data<float>(), w.data<float>(), rows, in, out); },
              [&] {
                const Tensor weights = raw::rounded_parameter(w, x.dtype());
                cuda::linear_backward_data(to, dx.add, cuda::Factor(factor), cuda::Factor(weights), rows, in, out);
              });
        }
      });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) {
  require_fit(x, w, b);
  const DType type = product_dtype(x.device());
  const Tensor factor = raw::cast(x, type);
  const Tensor y = Tensor::empty({x.dim(0), w.dim(0)}, DType::f32, x.device());
  multiply(y, factor, raw::rounded_parameter(w, type), b, relu, 0);
  return recorded(y, x, factor, w, b, relu);
}

Tensor linear(const Tensor& x, Parameter& parameter, const Tensor& b, bool relu) {
  const std::int64_t chunk = parameter.chunk_rows();
  if (chunk == 0 || !recording()) return linear(x, parameter.fresh(), b, relu);
  const Tensor w = parameter.tensor();
  require_fit(x, w, b);
  const std::int64_t out = w.dim(0);
  const DType type = product_dtype(x.device());
  const Tensor factor = raw::cast(x, type);
  const Tensor y = Tensor::empty({x.dim(0), out}, DType::f32, x.device());
  for (std::int64_t first = 0; first < out; first += chunk) {
    const std::int64_t count = std::min(chunk, out - first);
    parameter.refresh({first, count});
    multiply(y, factor, raw::cast(w.value().rows(first, count), type), b, relu, first);
  }
  return recorded(y, x, factor, w, b, relu);
}

}  // namespace laconic::inline ops
