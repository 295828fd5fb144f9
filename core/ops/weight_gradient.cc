#include "core/ops/weight_gradient.h"

#include <algorithm>

#include "core/cpu/matmul.h"
#include "core/cuda/matmul.h"
#include "core/dispatch.h"

namespace laconic::ops {

void weight_gradient(Grads& grads, int i, const Tensor& x, const Tensor& dy, std::int64_t rows, std::int64_t in,
                     std::int64_t width) {
  if (!grads.wants(i)) return;
  const std::int64_t wanted = grads.chunk_rows(i), chunk = wanted > 0 ? wanted : width;
  const Grads::Target dw = grads.into(i, {width, in}, dy.device());
  for (std::int64_t first = 0; first < width; first += chunk) {
    const std::int64_t count = std::min(chunk, width - first);
    float* to = dw.tensor.data<float>() + first * in;
    on_device(
        dy.device(),
        [&] {
          cpu::linear_backward_weights(to, dw.add, x.data<float>(), dy.data<float>() + first, rows, in, count, width);
        },
        [&] {
          cuda::linear_backward_weights(to, dw.add, cuda::Factor(x), cuda::Factor(dy, first), rows, in, count, width);
        });
    if (wanted > 0) grads.complete_rows(i, first, count);
  }
}

}  // namespace laconic::ops
