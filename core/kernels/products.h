#pragma once
#include <cstdint>
#include <limits>

#include "core/dispatch.h"
#include "core/ops/conv2d.h"

/// Matrix products of row-major matrices, and convolutions. The CPU has them of oneDNN, a CUDA device of cuBLAS and
/// cuDNN, on the calling thread's stream.
namespace laconic {

/// The sizes of a convolution.
struct ConvSizes {
  std::int64_t n, c, h, w, out, kh, kw, oh, ow;
  int stride, pad, dilation, groups;
  auto operator<=>(const ConvSizes&) const = default;
};
inline ConvSizes conv_sizes(const Tensor& x, const Tensor& y, const Shape& w, const ops::Conv2dOptions& o) {
  return {x.dim(0), x.dim(1), x.dim(2), x.dim(3), y.dim(1),   w[2],    w[3],
          y.dim(2), y.dim(3), o.stride, o.pad,    o.dilation, o.groups};
}

namespace cpu {

// The kernel per direction follows measurements on Zen 5: for up to 256 rows oneDNN's matmul primitive with the weights
// described as transposed is the fastest forward, sgemm everything else (1.1 to 2.6 times OpenBLAS for 20 to 32 rows).

/// y = x w' + b, then ReLU if asked.   x : [rows, in]   w : [out, in]   b : [out] or null
/// y : [rows, out], its rows `stride` apart (out columns of a wider matrix)
void linear_forward(float* y, const float* x, const float* w, const float* b, std::int64_t rows, std::int64_t in,
                    std::int64_t out, std::int64_t stride, bool relu);
/// dx[rows, in] = dy[rows, out] w, or += with add
void linear_backward_data(float* dx, bool add, const float* dy, const float* w, std::int64_t rows, std::int64_t in,
                          std::int64_t out);
/// dw[out, in] = dy' x, or += with add. dy : [rows, out], its rows `stride` apart (out columns of a wider matrix)
void linear_backward_weights(float* dw, bool add, const float* x, const float* dy, std::int64_t rows, std::int64_t in,
                             std::int64_t out, std::int64_t stride);

/// y (+)= x m for one matrix m and many x, one after another: m is copied once into the order that oneDNN's kernel
/// reads fastest. Worth it from about six products on (measured on Zen 5, 20 rows, 650 to 2600: 249 GFLOP/s where plain
/// weights give 175, and packing takes as long as 2.4 products). The kernel itself is kept per thread and shape.
///   x : [rows, in]   m : [in, out]   y : [rows, out]
class PackedMatmul {
 public:
  /// m is row-major; transposed: given as its transpose, [out, in]. add: y += instead of y =.
  PackedMatmul(const float* m, bool transposed, bool add, std::int64_t rows, std::int64_t in, std::int64_t out);
  void run(float* y, const float* x) const;

 private:
  std::shared_ptr<struct Product> product_;
  Tensor packed_;
};

// 2-d convolution: our own where core/cpu/convolutions.h takes it, else oneDNN's. Its primitives are made once per
// shape and thread. Weights are kept in oneDNN's own blocked order beside the parameter and refreshed when its version
// changes (plain weights handed to a primitive fall to kernels that are 2 to 1000 times slower).

/// The layout that a convolution of x gives, and the one that it wants x in.
struct ConvLayouts {
  Layout input, output;
};
ConvLayouts conv_layouts(const Tensor& x, std::int64_t out_channels, int groups);

/// y = conv(x, w) + b, then ReLU if asked. x and y in the layouts above; b may be undefined.
void conv2d_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b,
                    const ops::Conv2dOptions& options);
/// dx = the gradient of the input.  dy in the output's layout, dx in the input's.
void conv2d_backward_data(const Tensor& dx, const Tensor& dy, const Tensor& w, const ops::Conv2dOptions& options);
/// dw (+)= the gradient of the weights, in plain order; db (+)= the bias's gradient, if defined.
void conv2d_backward_weights(const Tensor& dw, bool add_dw, const Tensor& db, bool add_db, const Tensor& x,
                             const Tensor& dy, const ops::Conv2dOptions& options);

}  // namespace cpu
namespace cuda {

/// Where a product goes: float32, or bfloat16, to which its sums are rounded.
struct Product {
  void* data;
  DType dtype;

  Product(float* p) : data(p), dtype(DType::f32) {}
  explicit Product(const Tensor& t) : data(t.raw_data()), dtype(t.dtype()) {}
};

/// A matrix that a product reads: float32 (multiplied as matmul_precision() says), or bfloat16. Both of a product are
/// of one type. cuBLAS adds in an order that depends on shapes and the GPU's model only: the same bits every time and
/// on every rank.
struct Factor {
  const void* data;
  DType dtype;

  Factor(const float* p) : data(p), dtype(DType::f32) {}
  explicit Factor(const Product& p) : data(p.data), dtype(p.dtype) {}
  /// `first`: the element that it begins with.
  explicit Factor(const Tensor& t, std::int64_t first = 0)
      : data(static_cast<const std::byte*>(t.raw_data()) + static_cast<std::size_t>(first) * size_of(t.dtype())),
        dtype(t.dtype()) {}
};
/// As the CPU's; with add y += x w' (b null, no ReLU).
void linear_forward(Product y, bool add, Factor x, Factor w, const float* b, std::int64_t rows, std::int64_t in,
                    std::int64_t out, std::int64_t stride, bool relu);
void linear_backward_data(Product dx, bool add, Factor dy, Factor w, std::int64_t rows, std::int64_t in,
                          std::int64_t out);
void linear_backward_weights(float* dw, bool add, Factor x, Factor dy, std::int64_t rows, std::int64_t in,
                             std::int64_t out, std::int64_t stride);

/// What follows a product or a convolution of channels-last images: y = x + b, then ReLU if asked.
///   x, y : [rows, columns], both with rows `stride` apart, of one type   b : [columns] or null   x may be y.
void add_bias(Product y, Factor x, const float* b, std::int64_t rows, std::int64_t columns, std::int64_t stride,
              bool relu);

// 2-d convolution: 1x1 ones of stride 1 are matrix products, all others cuDNN's. Activations are channels_last: as
// tensor cores read them, and batch norm and pooling walk over channels. Weights are kept in the order that goes with
// it beside the parameter until its value changes.
// Algorithms are what cuDNN's heuristic ranks first for a shape among those that are deterministic and need at most
// 1 GiB of workspace; never a timing, so that all ranks with one model of GPU compute the same bits. Where there is
// none for channels_last, one for plain order in float32 takes its place. Operands are all f32, multiplied as
// matmul_precision() says, or all bf16, but for the parameter, which is rounded here. Activations and their gradients
// are of their type.

/// cuDNN describes no tensor of 2^31 elements or more: a batch whose input or output has more than this goes in two.
inline constexpr std::int64_t kConvMostElements = std::numeric_limits<std::int32_t>::max();

/// y = conv(x, w) + b, then ReLU if asked.   x, y : both f32 or both bf16   w : plain, f32   b may be undefined
void conv2d_forward(const Tensor& y, const Tensor& x, const Tensor& w, const Tensor& b,
                    const ops::Conv2dOptions& options, std::int64_t most_elements = kConvMostElements);
/// dx = the gradient of the input.   dx, dy : both f32 or both bf16
void conv2d_backward_data(const Tensor& dx, const Tensor& dy, const Tensor& w, const ops::Conv2dOptions& options,
                          std::int64_t most_elements = kConvMostElements);
/// dw (+)= the gradient of the weights, in plain order.   x, dy : both f32 or both bf16
void conv2d_backward_weights(const Tensor& dw, bool add, const Tensor& x, const Tensor& dy,
                             const ops::Conv2dOptions& options, std::int64_t most_elements = kConvMostElements);

/// Convolution weights between plain order, [O][I][K] with K = kernel height x width, and the order for channels-last
/// images, [O][K][I], float or BFloat16. Each fewer than 2^31 elements.
template <class To>
void pack_weights(To* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K);
/// plain = packed, or += with add
template <class From>
void unpack_weights(float* plain, const From* packed, std::int64_t O, std::int64_t I, std::int64_t K, bool add);

}  // namespace cuda
}  // namespace laconic
