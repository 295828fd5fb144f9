#include "core/ops/embedding.h"

#include <algorithm>
#include <vector>

#include "core/cpu/embedding.h"
#include "core/cpu/softmax.h"
#include "core/cuda/embedding.h"
#include "core/dispatch.h"
#include "core/ops/one_device.h"
#include "core/raw.h"

namespace laconic::ops {

Tensor embedding(const Tensor& index, const Tensor& w) {
  require<ShapeError>(index.dtype() == DType::i64 && (index.rank() == 1 || index.rank() == 2),
                      "embedding: the indices are ", index.dtype(), " ", index.shape(), ", not i64 [T, B] or [n].");
  require<ShapeError>(w.rank() == 2, "embedding: w is ", w.shape(), ", not [vocabulary, dim].");
  const std::int64_t n = index.elements(), vocabulary = w.dim(0), dim = w.dim(1);
  require_one_device("embedding", {{"w", w}, {"index", index}});
  on_device(
      index.device(),
      [&] {
        const std::int64_t* values = index.data<std::int64_t>();
        const std::int64_t bad = cpu::first_bad_label(values, n, vocabulary);
        require<DataError>(bad < 0, "embedding: index ", bad < 0 ? 0 : values[bad], " at position ", bad, " of ",
                           index.shape(), " is not in [0, ", vocabulary,
                           "). Was the text coded with this model's vocabulary?");
      },
      [] {});  // its kernel looks itself, so that nobody waits
  std::vector<std::int64_t> extents(index.shape().dims().begin(), index.shape().dims().end());
  extents.push_back(dim);
  const Tensor y = Tensor::empty(Shape(extents), DType::f32, index.device());
  on_device(
      index.device(),
      [&] { cpu::embedding_forward(y.data<float>(), w.data<float>(), index.data<std::int64_t>(), n, dim); },
      [&] {
        cuda::embedding_forward(y.data<float>(), w.data<float>(), index.data<std::int64_t>(), n, vocabulary, dim);
      });
  return record("embedding", y, {w}, [index = index.value(), n, shape = w.shape()](const Tensor& dy, Grads& grads) {
    const std::int64_t all = shape[0], width = shape[1];
    const std::int64_t wanted = grads.chunk_rows(0), chunk = wanted > 0 ? wanted : all;
    const Grads::Target dw = grads.into(0, shape, dy.device());
    for (std::int64_t first = 0; first < all; first += chunk) {
      const std::int64_t rows = std::min(chunk, all - first);
      const Tensor part = dw.tensor.rows(first, rows);
      if (!dw.add) raw::fill(part, 0);
      LACONIC_KERNEL(dy.device(), embedding_backward(part.data<float>(), dy.data<float>(), index.data<std::int64_t>(),
                                                     n, first, rows, width));
      if (wanted > 0) grads.complete_rows(0, first, rows);
    }
  });
}

}  // namespace laconic::ops
