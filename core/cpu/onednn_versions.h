#pragma once
#include <oneapi/dnnl/dnnl.hpp>

/// This file hides what oneDNN 2 (from 2.6) and oneDNN 3 spell differently. No other file asks for the version.
namespace laconic::cpu {

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

/// Describes a backward primitive P likewise. `hint` describes the forward primitive that it belongs to.
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
