#include "core/ops/lstm.h"

#include "core/cpu/lstm.h"
#include "core/cuda/lstm.h"
#include "core/dispatch.h"
#include "core/ops/weight_gradient.h"
#include "core/precision.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

/// All that a backward pass reads. h and c have one step more than the input: the first is the initial state.
struct LstmSaved {
  RecurrentExtents e;
  Tensor weight_hh, gates, c, h;
};

void forward(const LstmSaved& s, const RecurrentWeights& w, const LstmState& state) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Device device = s.h.device();
  const Tensor bias = raw::add(w.bias_ih.value(), w.bias_hh.value());
  s.h.rows(0, 1).view({B, H}).copy_from(state.h);
  s.c.rows(0, 1).view({B, H}).copy_from(state.c);
  const RecurrentProduct recurrent(device, s.weight_hh, true, true, B);
  for (std::int64_t t = 0; t < T; ++t) {
    float* gates = s.gates.data<float>() + t * B * width;
    float *c = s.c.data<float>() + t * state_size, *h = s.h.data<float>() + t * state_size;
    recurrent.run(gates, h);
    LACONIC_KERNEL(device, lstm_cell_forward(gates, c + state_size, h + state_size, bias.data<float>(), c, B, H));
  }
}

/// Leaves the gradients of the gates' sums in the gates' memory.
void backward_through_time(const LstmSaved& s, const float* dy) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Device device = s.h.device();
  const Tensor dc = Tensor::zeros({B, H}, DType::f32, device), dh = Tensor::zeros({B, H}, DType::f32, device);
  const RecurrentProduct recurrent(device, s.weight_hh, false, false, B);
  for (std::int64_t t = T - 1; t >= 0; --t) {
    float* gates = s.gates.data<float>() + t * B * width;
    if (t + 1 < T) recurrent.run(dh.data<float>(), gates + B * width);
    const float* c = s.c.data<float>() + t * state_size;
    LACONIC_KERNEL(device, lstm_cell_backward(gates, dc.data<float>(), dy + t * state_size, dh.data<float>(),
                                              c + state_size, c, B, H));
  }
}

void backward(const LstmSaved& s, const Tensor& dy, Grads& grads) {
  backward_through_time(s, dy.data<float>());
  bias_gradients(grads, {kBiasHh, kBiasIh}, s.gates);
  const DType type = product_dtype(dy.device());
  weight_gradient(grads, kWeightHh, raw::rounded(s.h, type), raw::rounded(s.gates, type), s.e.steps * s.e.batch,
                  s.e.hidden, s.e.width);
  if (grads.wants(kInputPart)) grads.put(kInputPart, s.gates);
}

}  // namespace

Tensor lstm(Tensor input, const RecurrentWeights& w, LstmState& state) {
  const RecurrentExtents e = recurrent_extents("lstm", input, w, 4, {state.h, state.c});
  const Device device = input.device();
  const Tensor history = Tensor().with_node(input.node());
  const Shape states{e.steps + 1, e.batch, e.hidden};
  const LstmSaved s{e, w.weight_hh.value(), own_memory(std::move(input)), Tensor::empty(states, DType::f32, device),
                    Tensor::empty(states, DType::f32, device)};
  forward(s, w, state);
  state = {last_step(s.h), last_step(s.c)};
  return record("lstm", s.h.rows(1, e.steps), {history, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
