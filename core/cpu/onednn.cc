#include "core/cpu/onednn.h"

namespace laconic::cpu {
namespace {

thread_local std::vector<OnednnImplementation> implementations;
thread_local Tensor scratch;  // one for all primitives of a worker: they run one after another

void* scratchpad(std::size_t bytes) {
  if (!scratch.defined() || scratch.bytes() < bytes)
    scratch = Tensor::empty({static_cast<std::int64_t>(bytes)}, DType::u8);
  return scratch.raw_data();
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

bool has_avx512() {
  static const bool yes = [] {
#if defined(__x86_64__)
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#else
    return false;
#endif
  }();
  return yes;
}

dnnl::primitive_attr onednn_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

BoundPrimitive::BoundPrimitive(std::string what, const dnnl::primitive_desc_base& description)
    : primitive_(description.get()), implementation_(description.impl_info_str()) {
  scratch_bytes_ = description.scratchpad_desc().get_size();
  if (scratch_bytes_) bind(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  implementations.push_back({std::move(what), implementation_});
}

void BoundPrimitive::bind(int argument, const dnnl::memory::desc& description) {
  arguments_.insert_or_assign(argument, dnnl::memory(description, onednn_engine(), nullptr));
}

void BoundPrimitive::set(int argument, const void* data) {
  arguments_.at(argument).set_data_handle(const_cast<void*>(data));
}

void BoundPrimitive::run() {
  if (scratch_bytes_) set(DNNL_ARG_SCRATCHPAD, scratchpad(scratch_bytes_));
  primitive_.execute(onednn_stream(), arguments_);
}

void reorder(const dnnl::memory::desc& from, const void* in, const dnnl::memory::desc& to, void* out, bool add) {
  struct Prepared {
    dnnl::memory::desc from, to;
    bool add;
    BoundPrimitive primitive;
  };
  // A model has a few dozen; a list of recent ones is found as fast as any map.
  thread_local std::vector<std::unique_ptr<Prepared>> prepared;
  Prepared* hit = nullptr;
  for (auto& p : prepared)
    if (p->add == add && p->from == from && p->to == to) hit = p.get();
  if (!hit) {
    dnnl::primitive_attr attributes = onednn_attributes();
    if (add) {
      dnnl::post_ops sum;
      sum.append_sum(1.0f);
      attributes.set_post_ops(sum);
    }
    const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to, attributes);
    prepared.push_back(std::make_unique<Prepared>(Prepared{from, to, add, BoundPrimitive("reorder", description)}));
    hit = prepared.back().get();
    hit->primitive.bind(DNNL_ARG_FROM, from);
    hit->primitive.bind(DNNL_ARG_TO, to);
  }
  hit->primitive.set(DNNL_ARG_FROM, in);
  hit->primitive.set(DNNL_ARG_TO, out);
  hit->primitive.run();
}

const std::vector<OnednnImplementation>& onednn_implementations() { return implementations; }

}  // namespace laconic::cpu
