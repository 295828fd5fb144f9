#include "core/ops/reduce.h"

#include <algorithm>

#include "core/kernels/elementwise.h"
#include "core/kernels/rows.h"
#include "core/ops/common.h"
#include "core/ops/functions.h"
#include "core/ops/reshape.h"

namespace laconic::inline ops {
namespace {

Tensor scaled_sum(const char* what, const Tensor& x0, float factor) {
  const Tensor x = floats(what, x0);
  const Tensor y = Tensor::empty({1}, DType::f32, x.device());
  on_device(
      x.device(), [&] { *y.data<float>() = static_cast<float>(cpu::sum(x.data<float>(), x.elements()) * factor); },
      [&] { cuda::sum(y.data<float>(), factor, x.data<float>(), x.elements()); });
  return record(what, y, {x0}, [=, shape = x.shape()](const Tensor& dy, Grads& grads) {
    Tensor dx = Tensor::empty(shape, DType::f32, dy.device());
    LACONIC_KERNEL(dy.device(), fill_times(dx.data<float>(), factor, dy.data<float>(), dx.elements()));
    grads.put(0, std::move(dx));
  });
}

/// x as [outer, n, inner]: n are the dimensions [first, last].
struct Middle {
  std::int64_t outer = 1, n = 1, inner = 1;
  Middle(const Shape& shape, int first, int last) {
    for (int d = 0; d < shape.rank(); ++d) (d < first ? outer : d <= last ? n : inner) *= shape[d];
  }
};

/// Sorted, from the front.
std::vector<int> dimensions(const char* what, const Tensor& x, std::vector<int> dims) {
  for (int& d : dims) d = dimension(what, x, d);
  std::sort(dims.begin(), dims.end());
  require<ShapeError>(std::adjacent_find(dims.begin(), dims.end()) == dims.end(), what,
                      ": a dimension is named twice.");
  return dims;
}

Tensor scaled_sum(const char* what, const Tensor& x, const std::vector<int>& named, bool keep, bool mean) {
  const std::vector<int> dims = dimensions(what, x, named);
  std::int64_t n = 1;
  Shape kept = x.shape();
  for (const int d : dims) n *= x.dim(d), kept = kept.with(d, 1);
  require<ShapeError>(!mean || n > 0, what, ": x ", x.shape(), " has nothing to average there.");
  const float scale = mean ? 1.0f / static_cast<float>(n) : 1.0f;
  Tensor y = raw::to_layout(floats(what, x), Layout::plain);
  // Neighbours at a time, from the back.
  for (std::size_t last = dims.size(); last > 0;) {
    std::size_t first = last - 1;
    while (first > 0 && dims[first - 1] == dims[first] - 1) --first;
    const Middle m(y.shape(), dims[first], dims[last - 1]);
    Shape shape = y.shape();
    for (std::size_t i = first; i < last; ++i) shape = shape.with(dims[i], 1);
    const Tensor sum = Tensor::empty(shape, DType::f32, x.device());
    LACONIC_KERNEL(x.device(),
                   sum_middle(sum.data<float>(), y.data<float>(), m.outer, m.n, m.inner, first == 0 ? scale : 1.0f));
    y = sum, last = first;
  }
  const Tensor result = keep ? y : y.view(without(y.shape(), dims));
  return record(what, result, {x}, [=, shape = x.shape()](const Tensor& dy, Grads& grads) {
    const Tensor all = raw::to_layout(dy, Layout::plain).view(kept);
    grads.put(0, expand(scale == 1.0f ? all : multiply(all, scale), shape));
  });
}

/// The extremes along one dimension and their places.
std::pair<Tensor, Tensor> extremes(const char* what, const Tensor& x, int named, bool keep, bool largest) {
  const int dim = dimension(what, x, named);
  require<ShapeError>(x.dim(dim) > 0, what, ": x ", x.shape(), " has nothing along dimension ", dim, ".");
  const Middle m(x.shape(), dim, dim);
  const Tensor from = raw::to_layout(floats(what, x), Layout::plain);
  const Shape shape = keep ? x.shape().with(dim, 1) : without(x.shape(), {dim});
  const Tensor y = Tensor::empty(shape, DType::f32, x.device()), index = Tensor::empty(shape, DType::i64, x.device());
  LACONIC_KERNEL(x.device(), extreme_middle(y.data<float>(), index.data<std::int64_t>(), from.data<float>(), m.outer,
                                            m.n, m.inner, largest));
  return {record(what, y, {x},
                 [=, of = x.shape()](const Tensor& gradient, Grads& grads) {
                   const Tensor dy = raw::to_layout(gradient, Layout::plain);
                   Tensor dx = Tensor::empty(of, DType::f32, dy.device());
                   LACONIC_KERNEL(dy.device(), put_middle(dx.data<float>(), dy.data<float>(),
                                                          index.data<std::int64_t>(), m.outer, m.n, m.inner));
                   grads.put(0, std::move(dx));
                 }),
          index};
}

Tensor softmaxed(const char* what, const Tensor& x, int named, bool logarithm) {
  const int dim = dimension(what, x, named), last = x.rank() - 1;
  if (dim != last) return transpose(softmaxed(what, transpose(x, dim, last), last, logarithm), dim, last);
  const std::int64_t classes = x.dim(last), rows = classes == 0 ? 0 : x.elements() / classes;
  const Tensor from = raw::to_layout(floats(what, x), Layout::plain),
               y = Tensor::empty(x.shape(), DType::f32, x.device());
  LACONIC_KERNEL(x.device(), softmax_rows(y.data<float>(), from.data<float>(), rows, classes, logarithm));
  return record(what, y, {x}, [=](const Tensor& gradient, Grads& grads) {
    grads.put(0, elementwise_gradient(gradient, y, [&](const Tensor& dx, const Tensor& dy) {
                LACONIC_KERNEL(y.device(), softmax_rows_backward(dx.data<float>(), dy.data<float>(), y.data<float>(),
                                                                 rows, classes, logarithm));
              }));
  });
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keep) { return scaled_sum("sum", x, dims, keep, false); }
Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keep) {
  return scaled_sum("mean", x, dims, keep, true);
}
Tensor var(const Tensor& x, const std::vector<int>& dims, bool unbiased, bool keep) {
  const Tensor far = subtract(x, mean(x, dims, true)), squares = sum(multiply(far, far), dims, keep);
  const std::int64_t n = x.elements() / std::max<std::int64_t>(1, squares.elements());
  require<ShapeError>(n > (unbiased ? 1 : 0), "var: x ", x.shape(), " has ", n, " values there",
                      unbiased ? ", not two." : ".");
  return multiply(squares, 1.0f / static_cast<float>(n - (unbiased ? 1 : 0)));
}
Tensor max(const Tensor& x, int dim, bool keep) { return extremes("max", x, dim, keep, true).first; }
Tensor min(const Tensor& x, int dim, bool keep) { return extremes("min", x, dim, keep, false).first; }
Tensor max(const Tensor& x) { return max(reshape(x, {x.elements()}), 0, true); }
Tensor min(const Tensor& x) { return min(reshape(x, {x.elements()}), 0, true); }
Tensor argmax(const Tensor& x, int dim, bool keep) { return extremes("argmax", x.value(), dim, keep, true).second; }
Tensor argmin(const Tensor& x, int dim, bool keep) { return extremes("argmin", x.value(), dim, keep, false).second; }
Tensor softmax(const Tensor& x, int dim) { return softmaxed("softmax", x, dim, false); }
Tensor log_softmax(const Tensor& x, int dim) { return softmaxed("log_softmax", x, dim, true); }

Tensor sum(const Tensor& x) { return scaled_sum("sum", x, 1.0f); }

Tensor mean(const Tensor& x) {
  require<ShapeError>(x.elements() >= 1, "mean: x ", x.shape(), " has no elements.");
  return scaled_sum("mean", x, 1.0f / static_cast<float>(x.elements()));
}

}  // namespace laconic::inline ops
