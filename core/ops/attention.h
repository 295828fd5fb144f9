#pragma once
#include "core/ops/dropout.h"

namespace laconic::inline ops {

/// Causal self-attention with several heads: each position attends to itself and to those in front of it.
///   y = dropout(softmax(q k' / sqrt(width), over columns up to the row)) v,   per sample and head
///   qkv : [B, T, 3 D], in each position q, k and v, each D = heads x width   ->   y : [B, T, D]
///   dropout_p   of the probabilities: each becomes 0 with probability p, else is multiplied by 1 / (1 - p)
/// The T x T probabilities are never stored: they are computed by blocks, and again in backward from each row's
/// logarithm of its sum of exponentials, which is saved beside qkv and y. Blocks above the diagonal are left out.
/// The dropout mask is that of dropout() for probabilities [B, heads, T, T'], T' being T rounded up to 64. It depends
/// on no number of threads or workers. The results' bits do not depend on the number of threads.
///   cost     2 B T^2 D multiply-adds forward and 5 backward, halved by the diagonal; T D floats of scratch a thread
///   source   Vaswani et al. 2017; Dao et al. 2022, "FlashAttention", algorithms 1 and 4
/// Throws ShapeError unless qkv is [B, T, 3 D] with `heads` dividing D and 0 <= dropout_p < 1, or if key.time_first.
Tensor causal_attention(const Tensor& qkv, int heads, float dropout_p = 0, const DropoutKey& key = {});

}  // namespace laconic::inline ops
