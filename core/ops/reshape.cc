#include "core/ops/reshape.h"

#include "core/raw.h"

namespace laconic::ops {

Tensor reshape(const Tensor& x, const Shape& shape) {
  require<ShapeError>(shape.elements() == x.elements(), "reshape: x ", x.shape(), " has ", x.elements(), " elements, ",
                      shape, " has ", shape.elements(), ".");
  return record("reshape", raw::to_layout(x, Layout::plain).view(shape), {x},
                [from = x.shape()](const Tensor& dy, Grads& grads) {
                  grads.put(0, raw::to_layout(dy, Layout::plain).view(from));
                });
}

Tensor flatten(const Tensor& x) {
  require<ShapeError>(x.rank() >= 1, "flatten: x has no dimension to keep.");
  const std::int64_t n = x.dim(0);
  if (x.rank() == 2 && x.layout() == Layout::plain) return x;
  return reshape(x, {n, n ? x.elements() / n : 0});
}

}  // namespace laconic::ops
