#include "core/ops/lstm.h"

#include <algorithm>

#include "core/cpu/elementwise.h"
#include "core/cpu/lstm.h"
#include "core/cpu/packed_matmul.h"
#include "core/dispatch.h"
#include "core/ops/weight_gradient.h"

namespace laconic::ops {
namespace {

/// All that a backward pass reads. h and c have one step more than the input: the first is the initial state.
struct Saved {
  RecurrentExtents e;
  Tensor weight_hh, gates, c, h;
};

void forward(const Saved& s, const RecurrentWeights& w, const LstmState& state) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Tensor bias = Tensor::empty({width});
  cpu::add(bias.data<float>(), w.bias_ih.data<float>(), w.bias_hh.data<float>(), width);
  std::copy_n(state.h.data<float>(), state_size, s.h.data<float>());
  std::copy_n(state.c.data<float>(), state_size, s.c.data<float>());
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), true, true, B, H, width);
  for (std::int64_t t = 0; t < T; ++t) {
    float* gates = s.gates.data<float>() + t * B * width;
    float *c = s.c.data<float>() + t * state_size, *h = s.h.data<float>() + t * state_size;
    recurrent.run(gates, h);
    cpu::lstm_cell_forward(gates, c + state_size, h + state_size, bias.data<float>(), c, B, H);
  }
}

/// Leaves the gradients of the gates' sums in the gates' memory.
void backward_through_time(const Saved& s, const float* dy) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Tensor dc = Tensor::zeros({B, H}), dh = Tensor::zeros({B, H});
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), false, false, B, width, H);
  for (std::int64_t t = T - 1; t >= 0; --t) {
    float* gates = s.gates.data<float>() + t * B * width;
    if (t + 1 < T) recurrent.run(dh.data<float>(), gates + B * width);
    const float* c = s.c.data<float>() + t * state_size;
    cpu::lstm_cell_backward(gates, dc.data<float>(), dy + t * state_size, dh.data<float>(), c + state_size, c, B, H);
  }
}

void backward(const Saved& s, const Tensor& dy, Grads& grads) {
  on_device(dy.device(), [&] { backward_through_time(s, dy.data<float>()); });
  bias_gradients(grads, {kBiasHh, kBiasIh}, s.gates);
  weight_gradient(grads, kWeightHh, s.h, s.gates, s.e.steps * s.e.batch, s.e.hidden, s.e.width);
  if (grads.wants(kInputPart)) grads.put(kInputPart, s.gates);
}

}  // namespace

Tensor lstm(Tensor input, const RecurrentWeights& w, LstmState& state) {
  const RecurrentExtents e = recurrent_extents("lstm", input, w, 4, {state.h, state.c});
  const Device device = input.device();
  const Tensor history = Tensor().with_node(input.node());
  const Shape states{e.steps + 1, e.batch, e.hidden};
  const Saved s{e, w.weight_hh.value(), own_memory(std::move(input)), Tensor::empty(states, DType::f32, device),
                Tensor::empty(states, DType::f32, device)};
  on_device(device, [&] { forward(s, w, state); });
  state = {last_step(s.h), last_step(s.c)};
  return record("lstm", s.h.rows(1, e.steps), {history, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
