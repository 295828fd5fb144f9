#include "core/ops/embedding.h"

#include <vector>

#include "core/kernels/rows.h"
#include "core/ops/common.h"

namespace laconic::inline ops {

Tensor embedding(const Tensor& index, const Tensor& w) {
  require<ShapeError>(index.dtype() == DType::i64 && (index.rank() == 1 || index.rank() == 2),
                      "embedding: the indices are ", index.dtype(), " ", index.shape(), ", not i64 [T, B] or [n].");
  require<ShapeError>(w.rank() == 2, "embedding: w is ", w.shape(), ", not [vocabulary, dim].");
  const std::int64_t n = index.elements(), vocabulary = w.dim(0), dim = w.dim(1);
  const Device device = require_one_device("embedding", {{"w", w}, {"index", index}});
  const std::int64_t bad = first_wrong(index, vocabulary);
  require<DataError>(bad < 0, "embedding: index ", bad < 0 ? 0 : index.data<std::int64_t>()[bad], " at position ", bad,
                     " of ", index.shape(), " is not in [0, ", vocabulary,
                     "). Was the text coded with this model's vocabulary?");
  std::vector<std::int64_t> extents(index.shape().dims().begin(), index.shape().dims().end());
  extents.push_back(dim);
  const Tensor y = Tensor::empty(Shape(extents), DType::f32, device);
  LACONIC_KERNEL(device, embedding_forward(y.data<float>(), floats("embedding", w).data<float>(),
                                           index.data<std::int64_t>(), n, vocabulary, dim));
  return record("embedding", y, {w}, [index = index.value(), n, shape = w.shape()](const Tensor& dy, Grads& grads) {
    each_chunk(grads, 0, shape, dy.device(), [&](const Grads::Target& dw, std::int64_t first, std::int64_t rows) {
      const Tensor part = dw.tensor.rows(first, rows);
      if (!dw.add) raw::fill(part, 0);
      LACONIC_KERNEL(dy.device(), embedding_backward(part.data<float>(), dy.data<float>(), index.data<std::int64_t>(),
                                                     n, first, rows, shape[1]));
    });
  });
}

}  // namespace laconic::inline ops
