#pragma once
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/cpu/simd.h"
#include "core/tensor.h"

/// What the files that use oneDNN share. Everything here belongs to the calling thread: a primitive is only ever run by
/// the worker that made it.
namespace laconic::cpu {

const dnnl::engine& onednn_engine();
dnnl::stream& onednn_stream();

/// Attributes with the scratchpad handed over by the caller: a primitive that keeps its own crashes when another thread
/// runs it.
dnnl::primitive_attr onednn_attributes();

/// A primitive with its arguments described once; only the addresses change from call to call.
class BoundPrimitive {
 public:
  BoundPrimitive() = default;
  /// `what` and the implementation's name go to onednn_implementations(). An argument with an empty description is
  /// none.
  BoundPrimitive(std::string what, const dnnl::primitive_desc_base& description,
                 std::initializer_list<std::pair<int, dnnl::memory::desc>> arguments);
  explicit operator bool() const { return static_cast<bool>(primitive_.get(true)); }
  /// A null address is left out.
  void run(std::initializer_list<std::pair<int, const void*>> addresses);

 private:
  dnnl::primitive primitive_;
  std::unordered_map<int, dnnl::memory> arguments_;
  std::size_t scratch_bytes_ = 0;
};

/// Lets a primitive with these attributes add to what is there. Replaces other operations after it.
void append_sum(dnnl::primitive_attr& attributes);

/// Copies between two descriptions of the same elements, adding to what is there if asked. Prepared reorders are kept.
void reorder(const dnnl::memory::desc& from, const void* in, const dnnl::memory::desc& to, void* out, bool add = false);

/// What this thread has created so far, as "conv forward: brgconv:avx512_core". A name with `ref` is a kernel hundreds
/// of times too slow; a test forbids it for the models of the zoo.
struct OnednnImplementation {
  std::string what, name;
};
const std::vector<OnednnImplementation>& onednn_implementations();

// What follows hides what oneDNN 2 (from 2.6) and oneDNN 3 spell differently. No other file asks for the version.

/// Describes a primitive P of forward computing, from P's own arguments in oneDNN's order. oneDNN 2 takes them as a
/// P::desc first, oneDNN 3 at once. Throws dnnl::error where no implementation takes them.
template <class P, class... Arguments>
typename P::primitive_desc describe(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                    const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine, arguments..., attributes);
#else
  return typename P::primitive_desc(typename P::desc(arguments...), attributes, engine);
#endif
}

/// Describes a backward primitive P in the same way. `hint` describes the forward primitive that it belongs to.
template <class P, class Hint, class... Arguments>
typename P::primitive_desc describe_backward(const dnnl::engine& engine, const dnnl::primitive_attr& attributes,
                                             const Hint& hint, const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  return typename P::primitive_desc(engine, arguments..., hint, attributes);
#else
  return typename P::primitive_desc(typename P::desc(arguments...), attributes, engine, hint);
#endif
}

/// Lets the result of a primitive with these attributes pass through a ReLU. Replaces other operations after it.
inline void append_relu(dnnl::primitive_attr& attributes) {
  dnnl::post_ops relu;
#if DNNL_VERSION_MAJOR >= 3
  relu.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#else
  relu.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
#endif
  attributes.set_post_ops(relu);
}

}  // namespace laconic::cpu
