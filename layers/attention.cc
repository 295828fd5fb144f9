#include "layers/attention.h"

namespace laconic {

CausalSelfAttention::CausalSelfAttention(Options o) : o_(o) {
  require<ShapeError>(o.dim >= 1 && o.heads >= 1 && o.dim % o.heads == 0 && o.dropout >= 0 && o.dropout < 1,
                      "CausalSelfAttention: dim = ", o.dim, ", heads = ", o.heads, ", dropout = ", o.dropout,
                      ": heads must divide dim, and dropout be in [0, 1).");
  c_attn_ = child<Linear>("c_attn",
                          {.in = o.dim, .out = 3 * o.dim, .bias = o.bias, .init = o.init, .init_bias = o.init_bias});
  c_proj_ = child<Linear>(
      "c_proj", {.in = o.dim, .out = o.dim, .bias = o.bias, .init = o.init_projection, .init_bias = o.init_bias});
}

Tensor CausalSelfAttention::forward(const Tensor& x) {
  require<ShapeError>(x.rank() == 3 && x.dim(2) == o_.dim, "CausalSelfAttention: x is ", x.shape(), ", not [B, T, ",
                      o_.dim, "].");
  const ForwardContext& c = context();
  const float p = training() && c.dropout ? o_.dropout : 0.0f;
  return c_proj_(ops::causal_attention(c_attn_(x), o_.heads, p,
                                       {.seed = c.seed,
                                        .layer = static_cast<std::uint32_t>(position()),
                                        .step = c.step,
                                        .first_sample = c.first_sample}));
}

}  // namespace laconic
