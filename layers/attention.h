#pragma once
#include "core/ops/attention.h"
#include "layers/weighted.h"

namespace laconic {

/// Causal self-attention with several heads: each position looks at itself and at those in front of it.
///   y = c_proj(causal_attention(c_attn(x)))      formulas at ops::causal_attention
///   x : [B, T, dim]   ->   y : [B, T, dim]
///   children   c_attn, Linear(dim, 3 dim): q, k and v of all heads;  c_proj, Linear(dim, dim)
///   dropout    of the attention's probabilities, in training: keyed as Dropout's masks are
///   source     Vaswani et al. 2017; names and order as in GPT-2 (Radford et al. 2019), weights as Linear's, [out, in]
/// Throws ShapeError if heads do not divide dim, or x has another shape.
class CausalSelfAttention final : public Module {
 public:
  struct Options {
    int dim = 0, heads = 1;
    float dropout = 0;
    bool bias = true;  ///< of both layers
    /// They fill the weights and both biases, instead of Linear's default.
    Initializer init = nullptr, init_projection = nullptr, init_bias = nullptr;
  };
  explicit CausalSelfAttention(Options o);

 private:
  Tensor forward(const Tensor& x) override;
  Options o_;
  Child<Linear> c_attn_, c_proj_;
};

}  // namespace laconic
