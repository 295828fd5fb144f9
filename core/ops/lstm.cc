#include "core/ops/lstm.h"

#include <algorithm>

#include "core/cpu/elementwise.h"
#include "core/cpu/lstm.h"
#include "core/cpu/matmul.h"
#include "core/cpu/packed_matmul.h"
#include "core/dispatch.h"

namespace laconic::ops {
namespace {

/// All that a backward pass reads. h and c have one step more than x: the first is the initial state.
struct Saved {
  RecurrentExtents e;
  Tensor x, weight_ih, weight_hh, gates, c, h;
};

void forward(const Saved& s, const RecurrentWeights& w, const LstmState& state) {
  const auto [T, B, in, H, width] = s.e;
  const std::int64_t state_size = B * H, gate_size = B * width;
  const Tensor bias = Tensor::empty({width});
  cpu::add(bias.data<float>(), w.bias_ih.data<float>(), w.bias_hh.data<float>(), width);
  std::copy_n(state.h.data<float>(), state_size, s.h.data<float>());
  std::copy_n(state.c.data<float>(), state_size, s.c.data<float>());
  cpu::linear_forward(s.gates.data<float>(), s.x.data<float>(), s.weight_ih.data<float>(), bias.data<float>(), T * B,
                      in, width, false);
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), true, true, B, H, width);
  for (std::int64_t t = 0; t < T; ++t) {
    float* gates = s.gates.data<float>() + t * gate_size;
    float *c = s.c.data<float>() + t * state_size, *h = s.h.data<float>() + t * state_size;
    recurrent.run(gates, h);
    cpu::lstm_cell_forward(gates, c + state_size, h + state_size, c, B, H);
  }
}

/// Gradients of the gates' sums at every step.
void backward_through_time(float* dgates, const Saved& s, const float* dy) {
  const auto [T, B, in, H, width] = s.e;
  const std::int64_t state_size = B * H, gate_size = B * width;
  const Tensor dc = Tensor::zeros({B, H}), dh = Tensor::empty({B, H});
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), false, true, B, width, H);
  for (std::int64_t t = T - 1; t >= 0; --t) {
    std::copy_n(dy + t * state_size, state_size, dh.data<float>());
    if (t + 1 < T) recurrent.run(dh.data<float>(), dgates + (t + 1) * gate_size);
    const float* c = s.c.data<float>() + t * state_size;
    cpu::lstm_cell_backward(dgates + t * gate_size, dc.data<float>(), dh.data<float>(),
                            s.gates.data<float>() + t * gate_size, c + state_size, c, B, H);
  }
}

void backward(const Saved& s, const Tensor& dy, Grads& grads) {
  const auto [T, B, in, H, width] = s.e;
  const std::int64_t rows = T * B;
  const Device device = s.x.device();
  const Tensor dgates = Tensor::empty(s.gates.shape(), DType::f32, device);
  on_device(device, [&] {
    const float* d = dgates.data<float>();
    backward_through_time(dgates.data<float>(), s, dy.data<float>());
    if (grads.wants(kBiasHh) || grads.wants(kBiasIh)) {
      const Tensor sum = Tensor::empty({width});
      cpu::sum_rows(sum.data<float>(), d, rows, width, false);
      for (int i : {kBiasHh, kBiasIh}) {
        if (!grads.wants(i)) continue;
        const Grads::Target db = grads.into(i, {width}, device);
        if (db.add)
          cpu::add(db.tensor.data<float>(), sum.data<float>(), width);
        else
          std::copy_n(sum.data<float>(), width, db.tensor.data<float>());
      }
    }
    recurrent_weight_gradient(grads, kWeightHh, s.h.data<float>(), d, rows, H, width, device);
    recurrent_weight_gradient(grads, kWeightIh, s.x.data<float>(), d, rows, in, width, device);
    recurrent_data_gradient(grads, s.x, s.weight_ih, d);
  });
}

}  // namespace

Tensor lstm(const Tensor& x, const RecurrentWeights& w, LstmState& state) {
  const RecurrentExtents e = recurrent_extents("lstm", x, w, 4, {state.h, state.c});
  const Device device = x.device();
  const Shape states{e.steps + 1, e.batch, e.hidden};
  const Saved s{e,
                x.value(),
                w.weight_ih.value(),
                w.weight_hh.value(),
                Tensor::empty({e.steps, e.batch, e.width}, DType::f32, device),
                Tensor::empty(states, DType::f32, device),
                Tensor::empty(states, DType::f32, device)};
  on_device(device, [&] { forward(s, w, state); });
  state = {last_step(s.h), last_step(s.c)};
  return record("lstm", s.h.rows(1, e.steps), {x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
