#include "core/cpu/matmul.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "core/cpu/elementwise.h"
#include "core/cpu/onednn.h"
#include "core/cpu/onednn_versions.h"
#include "core/parallel.h"

namespace laconic::cpu {
namespace {

void check(dnnl_status_t status) {
  require<Error>(status == dnnl_success, "matmul: oneDNN's sgemm failed with status ", static_cast<int>(status), ".");
}

/// y = x w' + b (+ ReLU) as one primitive, plain weights.
struct Forward {
  using memory = dnnl::memory;
  BoundPrimitive primitive;
  Forward(std::int64_t rows, std::int64_t in, std::int64_t out, std::int64_t stride, bool bias, bool relu) {
    const auto f32 = memory::data_type::f32;
    const memory::desc x({rows, in}, f32, memory::format_tag::ab), w({in, out}, f32, memory::format_tag::ba),
        y({rows, out}, f32, memory::dims{stride, 1}), b({1, out}, f32, memory::format_tag::ab);
    dnnl::primitive_attr attributes = onednn_attributes();
    if (relu) append_relu(attributes);
    const auto with = [&](const auto&... tensors) {
      return describe<dnnl::matmul>(onednn_engine(), attributes, tensors...);
    };
    primitive = BoundPrimitive("linear forward", bias ? with(x, w, b, y) : with(x, w, y));
    primitive.bind(DNNL_ARG_SRC, x);
    primitive.bind(DNNL_ARG_WEIGHTS, w);
    primitive.bind(DNNL_ARG_DST, y);
    if (bias) primitive.bind(DNNL_ARG_BIAS, b);
  }
};

}  // namespace

void linear_forward(float* y, const float* x, const float* w, const float* b, std::int64_t rows, std::int64_t in,
                    std::int64_t out, std::int64_t stride, bool relu) {
  constexpr std::int64_t kMatmulRows = 256;
  // oneDNN 3.7 writes a result of one column without its stride.
  if (rows <= kMatmulRows && (out > 1 || stride == 1)) {
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool, bool, int>;
    thread_local std::map<Key, std::unique_ptr<Forward>> made;
    auto& slot = made[Key{rows, in, out, stride, b != nullptr, relu, kernel_threads()}];
    if (!slot) slot = std::make_unique<Forward>(rows, in, out, stride, b != nullptr, relu);
    BoundPrimitive& p = slot->primitive;
    p.set(DNNL_ARG_SRC, x);
    p.set(DNNL_ARG_WEIGHTS, w);
    p.set(DNNL_ARG_DST, y);
    if (b) p.set(DNNL_ARG_BIAS, b);
    return p.run();
  }
  if (b)
    for (std::int64_t i = 0; i < rows; ++i) std::copy_n(b, out, y + i * stride);
  check(dnnl_sgemm('N', 'T', rows, out, in, 1.0f, x, in, w, in, b ? 1.0f : 0.0f, y, stride));
  if (!relu) return;
  if (stride == out) return cpu::relu(y, rows * out);
  for (std::int64_t i = 0; i < rows; ++i) cpu::relu(y + i * stride, out);
}

void linear_backward_data(float* dx, bool add, const float* dy, const float* w, std::int64_t rows, std::int64_t in,
                          std::int64_t out) {
  check(dnnl_sgemm('N', 'N', rows, in, out, 1.0f, dy, out, w, in, add ? 1.0f : 0.0f, dx, in));
}

void linear_backward_weights(float* dw, bool add, const float* x, const float* dy, std::int64_t rows, std::int64_t in,
                             std::int64_t out, std::int64_t stride) {
  check(dnnl_sgemm('T', 'N', out, in, rows, 1.0f, dy, stride, x, in, add ? 1.0f : 0.0f, dw, in));
}

}  // namespace laconic::cpu
