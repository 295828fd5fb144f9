#pragma once
#include <cstdint>
#include <optional>

#include "core/autograd.h"
#include "core/cpu/packed_matmul.h"

/// What the recurrent operations (ops::lstm, ops::gru, ops::rnn) share. They begin where a layer's product with its
/// input ends: x W_ih' of all time steps at once is an ops::linear, which awaits and finishes its weight by chunks.
namespace laconic::ops {

/// A layer's other weights under PyTorch's names, for G gates: [G H, H], [G H], [G H].
struct RecurrentWeights {
  Tensor weight_hh, bias_ih, bias_hh;
};

struct RecurrentExtents {
  std::int64_t steps, batch, hidden, width;  ///< width = G H
};

/// The extents of an input part [T, B, G H]. Throws ShapeError if it, the weights for that many gates, or a state
/// [B, H] do not fit, or are on different devices.
RecurrentExtents recurrent_extents(const char* what, const Tensor& input, const RecurrentWeights& w, int gates,
                                   std::initializer_list<std::reference_wrapper<const Tensor>> states);

/// y (+)= x m for one matrix m and the x of one time step after another. On the CPU m is packed once
/// (core/cpu/packed_matmul.h); a CUDA device reads it where it is, or rounded once (core/precision.h).
///   x : [rows, in]   y : [rows, out]   m : [in, out], or its transpose [out, in] if so said
class RecurrentProduct {
 public:
  /// device: where x and y are (m too, but for ghosts)
  RecurrentProduct(Device device, const Tensor& m, bool transposed, bool add, std::int64_t rows);
  void run(float* y, const float* x) const;

 private:
  Device device_;
  Tensor m_;  ///< as products read it
  bool transposed_, add_;
  std::int64_t rows_, in_, out_;
  std::optional<cpu::PackedMatmul> packed_;
  Tensor x_;  ///< x rounded, if m is
};

/// Inputs of a recorded recurrent operation.
inline constexpr int kInputPart = 0, kWeightHh = 1, kBiasIh = 2, kBiasHh = 3;

/// The memory of `t` if nobody else holds it, so that it may be written into; else of a copy.
Tensor own_memory(Tensor t);

/// The gradient of biases that are all added to the same sums: dgates [T, B, width] added up over steps and batch.
void bias_gradients(Grads& grads, std::initializer_list<int> biases, const Tensor& dgates);

/// The last of the steps of [T, B, H] as [B, H], copied so that it does not keep the sequence.
Tensor last_step(const Tensor& all);

}  // namespace laconic::ops
