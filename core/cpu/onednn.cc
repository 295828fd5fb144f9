#include "core/cpu/onednn.h"

#include <algorithm>
#include <iterator>

#include "core/cpu/scratch.h"
#include "core/base/parallel.h"
#include "core/base/processor.h"

namespace laconic::cpu {
namespace {

thread_local std::vector<OnednnImplementation> implementations;

// As the program starts: oneDNN takes no limit any more once it has computed.
[[maybe_unused]] const bool limited =
    kAvx2AtMost && dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2) == dnnl::status::success;

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream& onednn_stream() {
  thread_local dnnl::stream stream(onednn_engine());
  return stream;
}

dnnl::primitive_attr onednn_attributes() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

BoundPrimitive::BoundPrimitive(std::string what, const dnnl::primitive_desc_base& description,
                               std::initializer_list<std::pair<int, dnnl::memory::desc>> arguments)
    : primitive_(description.get()), scratch_bytes_(description.scratchpad_desc().get_size()) {
  const auto bind = [&](int argument, const dnnl::memory::desc& of) {
    arguments_.insert_or_assign(argument, dnnl::memory(of, onednn_engine(), nullptr));
  };
  for (const auto& [argument, of] : arguments)
    if (!of.is_zero()) bind(argument, of);
  if (scratch_bytes_) bind(DNNL_ARG_SCRATCHPAD, description.scratchpad_desc());
  implementations.push_back({std::move(what), description.impl_info_str()});
}

void BoundPrimitive::run(std::initializer_list<std::pair<int, const void*>> addresses) {
  for (const auto& [argument, data] : addresses)
    if (data) arguments_.at(argument).set_data_handle(const_cast<void*>(data));
  if (scratch_bytes_) arguments_.at(DNNL_ARG_SCRATCHPAD).set_data_handle(kernel_scratch_bytes(scratch_bytes_));
  primitive_.execute(onednn_stream(), arguments_);
}

void append_sum(dnnl::primitive_attr& attributes) {
  dnnl::post_ops sum;
  sum.append_sum(1.0f);
  attributes.set_post_ops(sum);
}

void reorder(const dnnl::memory::desc& from, const void* in, const dnnl::memory::desc& to, void* out, bool add) {
  struct Prepared {
    dnnl::memory::desc from, to;
    bool add;
    BoundPrimitive primitive;
  };
  // A model has a few dozen; a list of recent ones is found as fast as any map.
  constexpr std::size_t kMost = 512;
  thread_local std::vector<Prepared> prepared;
  auto hit = std::find_if(prepared.begin(), prepared.end(),
                          [&](const Prepared& p) { return p.add == add && p.from == from && p.to == to; });
  if (hit == prepared.end()) {
    dnnl::primitive_attr attributes = onednn_attributes();
    if (add) append_sum(attributes);
    const dnnl::reorder::primitive_desc description(onednn_engine(), from, onednn_engine(), to, attributes);
    if (prepared.size() >= kMost) prepared.clear();
    prepared.push_back({from, to, add, {"reorder", description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}}});
    hit = std::prev(prepared.end());
  }
  hit->primitive.run({{DNNL_ARG_FROM, in}, {DNNL_ARG_TO, out}});
}

const std::vector<OnednnImplementation>& onednn_implementations() { return implementations; }

}  // namespace laconic::cpu

namespace laconic {

OnednnVersion onednn_version() {
  const dnnl_version_t& v = *dnnl_version();
  return {concat(v.major, ".", v.minor, ".", v.patch), v.cpu_runtime == DNNL_RUNTIME_OMP};
}

}  // namespace laconic
