#include "core/ops/embedding.h"

#include <algorithm>
#include <vector>

#include "core/cpu/elementwise.h"
#include "core/cpu/embedding.h"
#include "core/cpu/softmax.h"
#include "core/dispatch.h"

namespace laconic::ops {

Tensor embedding(const Tensor& index, const Tensor& w) {
  require<ShapeError>(index.dtype() == DType::i64 && (index.rank() == 1 || index.rank() == 2),
                      "embedding: the indices are ", index.dtype(), " ", index.shape(), ", not i64 [T, B] or [n].");
  require<ShapeError>(w.rank() == 2, "embedding: w is ", w.shape(), ", not [vocabulary, dim].");
  const std::int64_t n = index.elements(), vocabulary = w.dim(0), dim = w.dim(1);
  on_device(index.device(), [&] {
    const std::int64_t* values = index.data<std::int64_t>();
    const std::int64_t bad = cpu::first_bad_label(values, n, vocabulary);
    require<DataError>(bad < 0, "embedding: index ", bad < 0 ? 0 : values[bad], " at position ", bad, " of ",
                       index.shape(), " is not in [0, ", vocabulary,
                       "). Was the text coded with this model's vocabulary?");
  });
  std::vector<std::int64_t> extents(index.shape().dims().begin(), index.shape().dims().end());
  extents.push_back(dim);
  const Tensor y = Tensor::empty(Shape(extents), DType::f32, index.device());
  on_device(index.device(), [&] {
    cpu::embedding_forward(y.data<float>(), w.data<float>(), index.data<std::int64_t>(), n, dim);
  });
  return record("embedding", y, {w}, [index = index.value(), n, shape = w.shape()](const Tensor& dy, Grads& grads) {
    const std::int64_t all = shape[0], width = shape[1];
    const std::int64_t wanted = grads.chunk_rows(0), chunk = wanted > 0 ? wanted : all;
    const Grads::Target dw = grads.into(0, shape, dy.device());
    for (std::int64_t first = 0; first < all; first += chunk) {
      const std::int64_t rows = std::min(chunk, all - first);
      on_device(dy.device(), [&] {
        float* part = dw.tensor.data<float>() + first * width;
        if (!dw.add) cpu::fill(part, 0, rows * width);
        cpu::embedding_backward(part, dy.data<float>(), index.data<std::int64_t>(), n, first, rows, width);
      });
      if (wanted > 0) grads.complete_rows(0, first, rows);
    }
  });
}

}  // namespace laconic::ops
