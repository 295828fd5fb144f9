#include "core/cpu/packed_matmul.h"

#include <map>
#include <memory>
#include <tuple>

#include "core/cpu/onednn.h"
#include "core/cpu/onednn_versions.h"
#include "core/parallel.h"

namespace laconic::cpu {

struct PackedMatmul::Kernel {
  using memory = dnnl::memory;
  BoundPrimitive primitive;
  memory::desc packed;

  Kernel(bool add, std::int64_t rows, std::int64_t in, std::int64_t out) {
    const auto f32 = memory::data_type::f32;
    const memory::desc x({rows, in}, f32, memory::format_tag::ab), m({in, out}, f32, memory::format_tag::any),
        y({rows, out}, f32, memory::format_tag::ab);
    dnnl::primitive_attr attributes = onednn_attributes();
    if (add) {
      dnnl::post_ops ops;
      ops.append_sum(1.0f);
      attributes.set_post_ops(ops);
    }
    const auto description = describe<dnnl::matmul>(onednn_engine(), attributes, x, m, y);
    packed = description.weights_desc();
    primitive = BoundPrimitive("packed matmul", description);
    primitive.bind(DNNL_ARG_SRC, x);
    primitive.bind(DNNL_ARG_WEIGHTS, packed);
    primitive.bind(DNNL_ARG_DST, y);
  }

  static Kernel& of(bool add, std::int64_t rows, std::int64_t in, std::int64_t out) {
    using Key = std::tuple<bool, std::int64_t, std::int64_t, std::int64_t, int>;
    thread_local std::map<Key, std::unique_ptr<Kernel>> made;
    auto& slot = made[Key{add, rows, in, out, kernel_threads()}];
    if (!slot) slot = std::make_unique<Kernel>(add, rows, in, out);
    return *slot;
  }
};

PackedMatmul::PackedMatmul(const float* m, bool transposed, bool add, std::int64_t rows, std::int64_t in,
                           std::int64_t out)
    : kernel_(Kernel::of(add, rows, in, out)),
      packed_(Tensor::empty({static_cast<std::int64_t>(kernel_.packed.get_size())}, DType::u8)) {
  using memory = dnnl::memory;
  const memory::desc plain({in, out}, memory::data_type::f32,
                           transposed ? memory::format_tag::ba : memory::format_tag::ab);
  reorder(plain, m, kernel_.packed, packed_.raw_data());
}

void PackedMatmul::run(float* y, const float* x) const {
  kernel_.primitive.set(DNNL_ARG_SRC, x);
  kernel_.primitive.set(DNNL_ARG_WEIGHTS, packed_.raw_data());
  kernel_.primitive.set(DNNL_ARG_DST, y);
  kernel_.primitive.run();
}

}  // namespace laconic::cpu
