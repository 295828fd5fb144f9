#include "core/ops/linear.h"

#include <algorithm>

#include "core/cpu/elementwise.h"
#include "core/cpu/matmul.h"
#include "core/dispatch.h"
#include "core/ops/relu_mask.h"
#include "core/ops/weight_gradient.h"

namespace laconic::ops {
namespace {

void require_fit(const Tensor& x, const Tensor& w, const Tensor& b) {
  require<ShapeError>(x.rank() == 2 && w.rank() == 2 && x.dim(1) == w.dim(1), "linear: x is ", x.shape(), " but w is ",
                      w.shape(), ": x needs ", w.rank() == 2 ? w.dim(1) : 0,
                      " columns. Flatten x before this layer, or build it with Linear({.in = ",
                      x.elements() / std::max<std::int64_t>(1, x.dim(0)), "}).");
  require<ShapeError>(!b.defined() || (b.rank() == 1 && b.dim(0) == w.dim(0)), "linear: w is ", w.shape(), " but b is ",
                      b.defined() ? b.shape() : Shape{}, ": b needs ", w.dim(0), " elements.");
}

Tensor recorded(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b, bool relu) {
  return record("linear", y, {x, w, b},
                [x = x.value(), w = w.value(), y_relu = relu ? y : Tensor{}, bias = b.defined()](const Tensor& gradient,
                                                                                                 Grads& grads) {
                  const Tensor dy = y_relu.defined() ? relu_mask(gradient, y_relu) : gradient.value();
                  const std::int64_t rows = x.dim(0), in = x.dim(1), out = w.dim(0);
                  weight_gradient(grads, 1, x, dy, rows, in, out);
                  if (bias && grads.wants(2)) {
                    const Grads::Target db = grads.into(2, {out}, w.device());
                    on_device(dy.device(), [&] {
                      cpu::sum_rows(db.tensor.data<float>(), dy.data<float>(), rows, out, db.add);
                    });
                  }
                  if (grads.wants(0)) {
                    const Grads::Target dx = grads.into(0, x.shape(), x.device());
                    on_device(dy.device(), [&] {
                      cpu::linear_backward_data(dx.tensor.data<float>(), dx.add, dy.data<float>(), w.data<float>(),
                                                rows, in, out);
                    });
                  }
                });
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, bool relu) {
  require_fit(x, w, b);
  const std::int64_t rows = x.dim(0), in = x.dim(1), out = w.dim(0);
  const Tensor y = Tensor::empty({rows, out}, DType::f32, x.device());
  if (rows > 0)
    on_device(x.device(), [&] {
      cpu::linear_forward(y.data<float>(), x.data<float>(), w.data<float>(), b.defined() ? b.data<float>() : nullptr,
                          rows, in, out, out, relu);
    });
  return recorded(y, x, w, b, relu);
}

Tensor linear(const Tensor& x, Parameter& parameter, const Tensor& b, bool relu) {
  const std::int64_t chunk = parameter.chunk_rows();
  if (chunk == 0 || !recording()) return linear(x, parameter.fresh(), b, relu);
  const Tensor w = parameter.tensor();
  require_fit(x, w, b);
  const std::int64_t rows = x.dim(0), in = x.dim(1), out = w.dim(0);
  const Tensor y = Tensor::empty({rows, out}, DType::f32, x.device());
  for (std::int64_t first = 0; first < out; first += chunk) {
    const std::int64_t count = std::min(chunk, out - first);
    parameter.refresh({first, count});
    if (rows == 0) continue;
    on_device(x.device(), [&] {
      cpu::linear_forward(y.data<float>() + first, x.data<float>(), w.data<float>() + first * in,
                          b.defined() ? b.data<float>() + first : nullptr, rows, in, count, out, relu);
    });
  }
  return recorded(y, x, w, b, relu);
}

}  // namespace laconic::ops
