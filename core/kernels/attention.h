#pragma once
#include "core/kernels/elementwise.h"

/// Causal attention. One head of one sample is a matrix for each of q, k and v [steps, width] inside of
/// qkv [batch, steps, 3, heads, width].
namespace laconic {

struct AttentionSizes {
  std::int64_t batch, steps, heads, width;
  std::int64_t dim() const { return heads * width; }
};

/// Which probabilities stay, and what they are multiplied by. Probability (head, row, column) of a sample is element
/// (head steps + row) 64 ceil(steps / 64) + column of the mask. A threshold of 0: all stay.
struct AttentionDropout {
  DropoutMask mask;
  float scale;
};

/// y [batch, steps, heads, width] = softmax(q k' / sqrt(width), up to the diagonal) v. log_sums [batch, heads, steps]
/// receives what the softmax divided by: the logarithms of the sums of exponentials.
LACONIC_DECLARE(void causal_attention(float* y, float* log_sums, const float* qkv, const AttentionSizes& sizes,
                                      const AttentionDropout& dropout));
/// dqkv from dy and what forward read and wrote.
LACONIC_DECLARE(void causal_attention_backward(float* dqkv, const float* dy, const float* y, const float* log_sums,
                                               const float* qkv, const AttentionSizes& sizes,
                                               const AttentionDropout& dropout));

}  // namespace laconic
