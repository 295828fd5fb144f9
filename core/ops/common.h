#pragma once
#include <initializer_list>

#include "core/autograd.h"
#include "core/raw.h"

/// What several operations share.
namespace laconic::inline ops {

struct NamedOperand {
  const char* name;
  const Tensor& tensor;
};
/// Returns where a result of these operands lies, and the kernel runs that makes it: where one is a ghost, so is the
/// result, and none runs. Undefined operands are left out. Operations whose other operands are parameters go by x.
/// throws ShapeError if one is on a CUDA device and another is not there: a kernel would follow a pointer that means
///        nothing to it
Device require_one_device(const char* what, std::initializer_list<NamedOperand> operands);

/// Throws ShapeError unless x is float32 or bf16, naming what it is.
void require_real(const char* what, const Tensor& x);

/// Returns x's value for an operation that computes in float32 alone: bf16 is widened, anything else refused as above.
/// The operation may put a float32 gradient for x all the same (core/autograd.h).
Tensor floats(const char* what, const Tensor& x);

/// Returns the first place whose index (int64) is outside of 0 … n - 1, or -1: of a ghost, and of a CUDA device, whose
/// kernels look themselves, so that nobody waits.
std::int64_t first_wrong(const Tensor& index, std::int64_t n);

/// Returns x's memory in words of 32 bits, for kernels that copy floats.
inline float* words(const Tensor& x) { return static_cast<float*>(x.raw_data()); }

/// Throws ShapeError unless x is [N, C, H, W].
void require_images(const char* what, const Tensor& x);

/// x in a layout that kernels over channels read (core/kernels/images.h, ChannelView): plain images become
/// channels_last.
Tensor channelwise(const Tensor& x);

/// Calls f(dx, dy) with `gradient` in y's layout, and with memory for what is made of it element by element, which it
/// returns: the gradient's own if nobody else holds it.
template <class F>
Tensor elementwise_gradient(const Tensor& gradient, const Tensor& y, F f) {
  const bool mine = gradient.sole_owner();
  const Tensor dy = raw::to_layout(gradient, y.layout());
  const Tensor dx = mine || !dy.same_memory(gradient) ? dy : Tensor::like(y);
  f(dx, dy);
  return dx;
}

/// Returns the gradient where y > 0, else 0, in y's layout: the backward of a ReLU that some other operation applied to
/// y. Both have one type.
Tensor relu_mask(const Tensor& gradient, const Tensor& y);

/// The gradient dy' x of a weight [width, in] that is input i of an operation y = x w', if it is wanted: as a whole, or
/// in the chunks of rows in which it travels, each handed over when it is done (Grads::chunk_rows).
///   x : [rows, in]   dy : [rows, width]   both float32, or on a CUDA device both bfloat16
void weight_gradient(Grads& grads, int i, const Tensor& x, const Tensor& dy, std::int64_t rows, std::int64_t in,
                     std::int64_t width);

/// Writes the gradient of a matrix [rows, …] that is input i in the same way:
/// write(target, first, count) fills those rows of it.
template <class F>
void each_chunk(Grads& grads, int i, const Shape& shape, Device device, F write) {
  const std::int64_t wanted = grads.chunk_rows(i), chunk = wanted > 0 ? wanted : shape[0];
  const Grads::Target target = grads.into(i, shape, device);
  for (std::int64_t first = 0; first < shape[0]; first += chunk) {
    const std::int64_t count = std::min(chunk, shape[0] - first);
    write(target, first, count);
    if (wanted > 0) grads.complete_rows(i, first, count);
  }
}

}  // namespace laconic::inline ops
