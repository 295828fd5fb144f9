#include "core/ops/linear.h"

#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"
#include "core/kernels/strided.h"
#include "core/ops/common.h"
#include "core/ops/functions.h"
#include "core/ops/reshape.h"
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

/// [batch, rows, columns] of a tensor whose last two dimensions are matrices.
Tensor matrices(const Tensor& x) {
  const std::int64_t rows = x.dim(-2), columns = x.dim(-1);
  return x.view({rows * columns == 0 ? 0 : x.elements() / (rows * columns), rows, columns});
}
Shape in_front(const Shape& shape) { return Shape(shape.dims().first(static_cast<std::size_t>(shape.rank() - 2))); }
Shape with_matrix(const Shape& front, std::int64_t rows, std::int64_t columns) {
  std::vector<std::int64_t> dims(front.dims().begin(), front.dims().end());
  dims.push_back(rows), dims.push_back(columns);
  return Shape(std::span<const std::int64_t>(dims));
}

/// How the matrices of a, b and y stand in a product.
enum class Form { plain, b_transposed, a_transposed };

/// y[i] = a[i] b[i] (a b', a' b) for all i; a and b plain, [batch, ., .] with one matrix for all where batch is 1.
void multiply_each(const Tensor& y, const Tensor& a, const Tensor& b, Form form) {
  const DType type = product_dtype(y.device());
  const Tensor x = raw::cast(a, type), w = raw::cast(b, type);
  const std::int64_t batch = y.dim(0), of_a = a.dim(1) * a.dim(2), of_b = b.dim(1) * b.dim(2),
                     of_y = y.dim(1) * y.dim(2);
  for (std::int64_t i = 0; i < batch && of_y > 0; ++i) {
    float* to = y.data<float>() + i * of_y;
    const std::int64_t at_a = a.dim(0) == 1 ? 0 : i * of_a, at_b = b.dim(0) == 1 ? 0 : i * of_b;
    on_device(
        y.device(),
        [&] {
          const float *left = x.data<float>() + at_a, *right = w.data<float>() + at_b;
          if (form == Form::plain) cpu::linear_backward_data(to, false, left, right, a.dim(1), b.dim(2), a.dim(2));
          if (form == Form::b_transposed)
            cpu::linear_forward(to, left, right, nullptr, a.dim(1), a.dim(2), b.dim(1), b.dim(1), false);
          if (form == Form::a_transposed)
            cpu::linear_backward_weights(to, false, right, left, a.dim(1), b.dim(2), a.dim(2), a.dim(2));
        },
        [&] {
          const cuda::Factor left(x, at_a), right(w, at_b);
          if (form == Form::plain) cuda::linear_backward_data(to, false, left, right, a.dim(1), b.dim(2), a.dim(2));
          if (form == Form::b_transposed)
            cuda::linear_forward(to, false, left, right, nullptr, a.dim(1), a.dim(2), b.dim(1), b.dim(1), false);
          if (form == Form::a_transposed)
            cuda::linear_backward_weights(to, false, right, left, a.dim(1), b.dim(2), a.dim(2), a.dim(2));
        });
  }
}

Tensor product(const Tensor& a, const Tensor& b, const Shape& shape, Form form) {
  const Tensor y = Tensor::empty(shape, DType::f32, require_one_device("matmul", {{"a", a}, {"b", b}}));
  if (y.elements() > 0 && a.elements() == 0) raw::fill(y, 0);  // sums of nothing
  if (y.elements() > 0 && a.elements() > 0) multiply_each(matrices(y), matrices(a), matrices(b), form);
  return y;
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

Tensor matmul(const Tensor& a, const Tensor& b) {
  require_real("matmul", a), require_real("matmul", b);
  require<ShapeError>(a.rank() >= 1 && b.rank() >= 1, "matmul: a ", a.shape(), " and b ", b.shape(),
                      ": a number is no matrix.");
  if (a.rank() == 1) return squeeze(matmul(unsqueeze(a, 0), b), b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return squeeze(matmul(a, unsqueeze(b, 1)), -1);
  require<ShapeError>(a.dim(-1) == b.dim(-2), "matmul: a ", a.shape(), " and b ", b.shape(),
                      ": a's rows and b's columns differ in length.");
  if (b.rank() == 2 && a.rank() > 2) {  // one product of all rows, and one for the gradient of b
    const Shape before = in_front(a.shape());
    const Tensor rows = reshape(a, Shape{before.elements() * a.dim(-2), a.dim(-1)});
    return reshape(matmul(rows, b), with_matrix(before, a.dim(-2), b.dim(-1)));
  }
  const Shape front = broadcast_shape("matmul", in_front(a.shape()), in_front(b.shape()));
  // One matrix serves all; what broadcasts otherwise is repeated.
  const auto repeated = [&](const Tensor& x) {
    const Tensor plain = raw::to_layout(floats("matmul", x), Layout::plain);
    return in_front(x.shape()).elements() == 1 ? plain : expand(plain, with_matrix(front, x.dim(-2), x.dim(-1)));
  };
  const Tensor left = repeated(a), right = repeated(b);
  const Tensor y = product(left, right, with_matrix(front, a.dim(-2), b.dim(-1)), Form::plain);
  return record("matmul", y, {a, b}, [=, of_a = a.shape(), of_b = b.shape()](const Tensor& gradient, Grads& grads) {
    const Tensor dy = raw::to_layout(gradient, Layout::plain);
    if (grads.wants(0))
      grads.put(0, sum_to(product(dy, right, with_matrix(front, of_a[of_a.rank() - 2], of_a[of_a.rank() - 1]),
                                  Form::b_transposed),
                          of_a));
    if (grads.wants(1))
      grads.put(1, sum_to(product(left, dy, with_matrix(front, of_b[of_b.rank() - 2], of_b[of_b.rank() - 1]),
                                  Form::a_transposed),
                          of_b));
  });
}

}  // namespace laconic::inline ops
