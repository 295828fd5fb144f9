#include <algorithm>
#include <map>

#include "core/base/kept.h"
#include "core/base/parallel.h"
#include "core/cpu/onednn.h"
#include "core/cpu/scratch.h"
#include "core/cpu/simd.h"
#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"

namespace laconic::cpu {
namespace {

void check(dnnl_status_t status) {
  require<Error>(status == dnnl_success, "matmul: oneDNN's sgemm failed with status ", static_cast<int>(status), ".");
}

/// What a product y = x m (+ b) is prepared for.
struct ProductShape {
  std::int64_t rows, in, out, stride;
  bool packed, bias, relu, add;
  int threads = kernel_threads();
  auto operator<=>(const ProductShape&) const = default;
};

}  // namespace

/// Such a product as one primitive.
struct Product {
  BoundPrimitive primitive;
  dnnl::memory::desc m;  ///< [out, in], or where packed what oneDNN reads fastest

  explicit Product(const ProductShape& s) {
    using Tag = dnnl::memory::format_tag;
    const auto f32 = dnnl::memory::data_type::f32;
    const dnnl::memory::desc x({s.rows, s.in}, f32, Tag::ab),
        weights({s.in, s.out}, f32, s.packed ? Tag::any : Tag::ba),
        y({s.rows, s.out}, f32, dnnl::memory::dims{s.stride, 1}),
        b = s.bias ? dnnl::memory::desc({1, s.out}, f32, Tag::ab) : dnnl::memory::desc();
    dnnl::primitive_attr attributes = onednn_attributes();
    if (s.relu) append_relu(attributes);
    if (s.add) append_sum(attributes);
    const auto with = [&](const auto&... tensors) {
      return describe<dnnl::matmul>(onednn_engine(), attributes, tensors...);
    };
    const auto description = s.bias ? with(x, weights, b, y) : with(x, weights, y);
    m = description.weights_desc();
    primitive = {s.packed ? "packed matmul" : "linear forward",
                 description,
                 {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, m}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y}}};
  }
  void run(float* y, const float* x, const void* weights, const float* b) {
    primitive.run({{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y}});
  }

  static std::shared_ptr<Product> of(const ProductShape& shape) {
    thread_local std::map<ProductShape, std::shared_ptr<Product>> made;
    auto& slot = kept(made, shape);
    if (!slot) slot = std::make_shared<Product>(shape);
    return slot;
  }
};

PackedMatmul::PackedMatmul(const float* m, bool transposed, bool add, std::int64_t rows, std::int64_t in,
                           std::int64_t out)
    : product_(Product::of({rows, in, out, out, true, false, false, add})),
      packed_(Tensor::empty({static_cast<std::int64_t>(product_->m.get_size())}, DType::u8)) {
  using Tag = dnnl::memory::format_tag;
  const dnnl::memory::desc plain({in, out}, dnnl::memory::data_type::f32, transposed ? Tag::ba : Tag::ab);
  reorder(plain, m, product_->m, packed_.raw_data());
}

void PackedMatmul::run(float* y, const float* x) const { product_->run(y, x, packed_.raw_data(), nullptr); }

void linear_forward(float* y, const float* x, const float* w, const float* b, std::int64_t rows, std::int64_t in,
                    std::int64_t out, std::int64_t stride, bool relu) {
  constexpr std::int64_t kMatmulRows = 256;
  // oneDNN 3.7 writes a result of one column without its stride.
  if (rows <= kMatmulRows && (out > 1 || stride == 1))
    return Product::of({rows, in, out, stride, false, b != nullptr, relu, false})->run(y, x, w, b);
  if (b)
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(b, out, y + i * stride);
  check(dnnl_sgemm('N', 'T', rows, out, in, 1.0f, x, in, w, in, b ? 1.0f : 0.0f, y, stride));
  if (!relu) return;
  if (stride == out) return cpu::relu(y, rows * out);
  for (std::int64_t i = 0; i < rows; ++i) cpu::relu(y + i * stride, out);
}

// Where rows are few, oneDNN's AVX2 kernel reads w where it lies. If the rows of w are a multiple of 2 KiB apart, they
// fall into few sets of the cache. So blocks of them are copied to where they are an odd number of cache lines apart:
// 99 instead of 48 GFLOP/s for 128 rows and 4096 to 4096, 76 instead of 43 for 32 rows (Zen 4 limited to AVX2, whose
// peak is 117).
void linear_backward_data(float* dx, bool add, const float* dy, const float* w, std::int64_t rows, std::int64_t in,
                          std::int64_t out) {
  if (takes_avx2() && !takes_avx512() && in % 512 == 0 && rows <= 256 && out > 0) {
    constexpr std::int64_t kBlockRows = 256;
    const std::int64_t stride = in + 16;
    float* const copy = kernel_scratch(static_cast<std::size_t>(std::min(kBlockRows, out) * stride));
    for (std::int64_t first = 0; first < out; first += kBlockRows) {
      const std::int64_t count = std::min(kBlockRows, out - first);
      parallel_for(count, 16, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t r = begin; r < end; ++r) std::copy_n(w + (first + r) * in, in, copy + r * stride);
      });
      check(dnnl_sgemm('N', 'N', rows, in, count, 1.0f, dy + first, out, copy, stride, add || first > 0 ? 1.0f : 0.0f,
                       dx, in));
    }
    return;
  }
  check(dnnl_sgemm('N', 'N', rows, in, out, 1.0f, dy, out, w, in, add ? 1.0f : 0.0f, dx, in));
}

void linear_backward_weights(float* dw, bool add, const float* x, const float* dy, std::int64_t rows, std::int64_t in,
                             std::int64_t out, std::int64_t stride) {
  if (rows == 0) {  // sums of nothing, which oneDNN does not write
    if (!add) std::fill_n(dw, out * in, 0.0f);
    return;
  }
  check(dnnl_sgemm('T', 'N', out, in, rows, 1.0f, dy, stride, x, in, add ? 1.0f : 0.0f, dw, in));
}

}  // namespace laconic::cpu
