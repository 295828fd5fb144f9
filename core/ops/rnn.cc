#include "core/ops/rnn.h"

#include <algorithm>

#include "core/cpu/elementwise.h"
#include "core/cpu/packed_matmul.h"
#include "core/dispatch.h"
#include "core/ops/weight_gradient.h"

namespace laconic::ops {
namespace {

/// All that a backward pass reads. h has one step more than the input: the first is the initial state.
struct Saved {
  RecurrentExtents e;
  Nonlinearity f;
  Tensor weight_hh, h;
};

void forward(const Saved& s, const Tensor& input, const RecurrentWeights& w, const Tensor& state) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Tensor bias = Tensor::empty({H});
  cpu::add(bias.data<float>(), w.bias_ih.data<float>(), w.bias_hh.data<float>(), H);
  std::copy_n(state.data<float>(), state_size, s.h.data<float>());
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), true, true, B, H, H);
  for (std::int64_t t = 0; t < T; ++t) {
    const float* before = s.h.data<float>() + t * state_size;
    float* h = s.h.data<float>() + (t + 1) * state_size;
    for (std::int64_t b = 0; b < B; ++b)
      cpu::add(h + b * H, input.data<float>() + t * state_size + b * H, bias.data<float>(), H);
    recurrent.run(h, before);
    s.f == Nonlinearity::tanh ? cpu::tanh_forward(h, h, state_size) : cpu::relu(h, state_size);
  }
}

/// Gradients of the sums of every step.
void backward_through_time(const Saved& s, float* dsums, const float* dy) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), false, true, B, H, H);
  for (std::int64_t t = T - 1; t >= 0; --t) {
    float* d = dsums + t * state_size;
    std::copy_n(dy + t * state_size, state_size, d);
    if (t + 1 < T) recurrent.run(d, d + state_size);
    const float* h = s.h.data<float>() + (t + 1) * state_size;
    s.f == Nonlinearity::tanh ? cpu::tanh_backward(d, d, h, state_size) : cpu::relu_backward(d, d, h, state_size);
  }
}

void backward(const Saved& s, const Tensor& dy, Grads& grads) {
  const Tensor dsums = Tensor::empty(dy.shape(), DType::f32, dy.device());
  on_device(dy.device(), [&] { backward_through_time(s, dsums.data<float>(), dy.data<float>()); });
  bias_gradients(grads, {kBiasHh, kBiasIh}, dsums);
  weight_gradient(grads, kWeightHh, s.h, dsums, s.e.steps * s.e.batch, s.e.hidden, s.e.width);
  if (grads.wants(kInputPart)) grads.put(kInputPart, dsums);
}

}  // namespace

Tensor rnn(const Tensor& input, const RecurrentWeights& w, Tensor& state, Nonlinearity f) {
  const RecurrentExtents e = recurrent_extents("rnn", input, w, 1, {state});
  const Device device = input.device();
  const Saved s{e, f, w.weight_hh.value(), Tensor::empty({e.steps + 1, e.batch, e.hidden}, DType::f32, device)};
  on_device(device, [&] { forward(s, input, w, state); });
  state = last_step(s.h);
  return record("rnn", s.h.rows(1, e.steps), {input, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
