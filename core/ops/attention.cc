#include "core/ops/attention.h"

#include "core/kernels/attention.h"
#include "core/ops/common.h"

namespace laconic::inline ops {

Tensor causal_attention(const Tensor& qkv0, int heads, float dropout_p, const DropoutKey& key) {
  const Tensor qkv = floats("causal_attention", qkv0);
  require<ShapeError>(heads >= 1 && qkv.rank() == 3 && qkv.dim(2) % (3 * heads) == 0, "causal_attention: qkv is ",
                      qkv.shape(), ", not [B, T, 3 D] with D a multiple of ", heads, " heads.");
  require<ShapeError>(dropout_p >= 0 && dropout_p < 1, "causal_attention: dropout_p = ", dropout_p,
                      " is not in [0, 1).");
  require<ShapeError>(!key.time_first, "causal_attention: qkv is [B, T, 3 D], so that key.time_first cannot be.");
  const AttentionSizes sizes{qkv.dim(0), qkv.dim(1), heads, qkv.dim(2) / (3 * heads)};
  const AttentionDropout dropout{dropout_mask_of(dropout_p, key), 1.0f / (1.0f - dropout_p)};
  const Tensor y = Tensor::empty(qkv.shape().with(2, sizes.dim()), DType::f32, qkv.device());
  const Tensor log_sums = Tensor::empty({sizes.batch, sizes.heads, sizes.steps}, DType::f32, qkv.device());
  if (y.elements() > 0)
    LACONIC_KERNEL(qkv.device(),
                   causal_attention(y.data<float>(), log_sums.data<float>(), qkv.data<float>(), sizes, dropout));
  return record(
      "causal_attention", y, {qkv0}, [qkv, y, log_sums, sizes, dropout](const Tensor& dy, Grads& grads) {
        const Tensor dqkv = Tensor::like(qkv);
        if (y.elements() > 0)
          LACONIC_KERNEL(qkv.device(),
                         causal_attention_backward(dqkv.data<float>(), dy.data<float>(), y.data<float>(),
                                                   log_sums.data<float>(), qkv.data<float>(), sizes, dropout));
        grads.put(0, dqkv);
      });
}

}  // namespace laconic::inline ops
