#include "core/ops/lstm.h"

#include <algorithm>

#include "core/cpu/elementwise.h"
#include "core/cpu/lstm.h"
#include "core/cpu/matmul.h"
#include "core/cpu/packed_matmul.h"
#include "core/dispatch.h"

namespace laconic::ops {
namespace {

constexpr int kX = 0, kWeightIh = 1, kWeightHh = 2, kBiasIh = 3, kBiasHh = 4;  // inputs of the recorded operation

struct Extents {
  std::int64_t steps, batch, in, hidden;
  std::int64_t gates() const { return 4 * hidden; }
};

Extents checked(const Tensor& x, const LstmWeights& w, const LstmState& s) {
  require<ShapeError>(x.rank() == 3 && x.dim(0) >= 1 && x.dim(1) >= 1, "lstm: x is ", x.shape(),
                      ", not [T, B, in] with at least one step and one row.");
  require<ShapeError>(w.weight_ih.rank() == 2 && w.weight_hh.rank() == 2, "lstm: the weights are ",
                      w.weight_ih.shape(), " and ", w.weight_hh.shape(), ", not [4 H, in] and [4 H, H].");
  const Extents e{x.dim(0), x.dim(1), x.dim(2), w.weight_hh.dim(1)};
  require<ShapeError>(w.weight_ih.shape() == Shape{e.gates(), e.in} && w.weight_hh.dim(0) == e.gates(), "lstm: x is ",
                      x.shape(), " but weight_ih is ", w.weight_ih.shape(), " and weight_hh ", w.weight_hh.shape(),
                      ": for H = ", e.hidden, " they must be ", Shape{e.gates(), e.in}, " and ",
                      Shape{e.gates(), e.hidden}, ".");
  const Shape biases{e.gates()}, states{e.batch, e.hidden};
  require<ShapeError>(w.bias_ih.shape() == biases && w.bias_hh.shape() == biases, "lstm: the biases are ",
                      w.bias_ih.shape(), " and ", w.bias_hh.shape(), ", not ", biases, ".");
  require<ShapeError>(s.h.defined() && s.c.defined() && s.h.shape() == states && s.c.shape() == states,
                      "lstm: the initial state must be h and c of ", states, " each",
                      s.h.defined() && s.c.defined() ? concat(", not ", s.h.shape(), " and ", s.c.shape()) : "",
                      ". Start a new state when the batch size changes.");
  return e;
}

/// All that a backward pass reads. h and c have one step more than x: the first is the initial state.
struct Saved {
  Extents e;
  Tensor x, weight_ih, weight_hh, gates, c, h;
};

void forward(const Saved& s, const LstmWeights& w, const LstmState& state) {
  const auto [T, B, in, H] = s.e;
  const std::int64_t state_size = B * H, gate_size = B * s.e.gates();
  const Tensor bias = Tensor::empty({s.e.gates()});
  cpu::add(bias.data<float>(), w.bias_ih.data<float>(), w.bias_hh.data<float>(), s.e.gates());
  std::copy_n(state.h.data<float>(), state_size, s.h.data<float>());
  std::copy_n(state.c.data<float>(), state_size, s.c.data<float>());
  cpu::linear_forward(s.gates.data<float>(), s.x.data<float>(), s.weight_ih.data<float>(), bias.data<float>(), T * B,
                      in, s.e.gates(), false);
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), true, true, B, H, s.e.gates());
  for (std::int64_t t = 0; t < T; ++t) {
    float* gates = s.gates.data<float>() + t * gate_size;
    float *c = s.c.data<float>() + t * state_size, *h = s.h.data<float>() + t * state_size;
    recurrent.run(gates, h);
    cpu::lstm_cell_forward(gates, c + state_size, h + state_size, c, B, H);
  }
}

/// Gradients of the gates' sums at every step.
void backward_through_time(float* dgates, const Saved& s, const float* dy) {
  const auto [T, B, in, H] = s.e;
  const std::int64_t state_size = B * H, gate_size = B * s.e.gates();
  const Tensor dc = Tensor::zeros({B, H}), dh = Tensor::empty({B, H});
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), false, true, B, s.e.gates(), H);
  for (std::int64_t t = T - 1; t >= 0; --t) {
    std::copy_n(dy + t * state_size, state_size, dh.data<float>());
    if (t + 1 < T) recurrent.run(dh.data<float>(), dgates + (t + 1) * gate_size);
    const float* c = s.c.data<float>() + t * state_size;
    cpu::lstm_cell_backward(dgates + t * gate_size, dc.data<float>(), dh.data<float>(),
                            s.gates.data<float>() + t * gate_size, c + state_size, c, B, H);
  }
}

void backward(const Saved& s, const Tensor& dy, Grads& grads) {
  const auto [T, B, in, H] = s.e;
  const std::int64_t rows = T * B, width = s.e.gates();
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
    if (grads.wants(kWeightHh)) {
      const Grads::Target dw = grads.into(kWeightHh, {width, H}, device);
      cpu::linear_backward_weights(dw.tensor.data<float>(), dw.add, s.h.data<float>(), d, rows, H, width, width);
    }
    if (grads.wants(kWeightIh)) {
      const Grads::Target dw = grads.into(kWeightIh, {width, in}, device);
      cpu::linear_backward_weights(dw.tensor.data<float>(), dw.add, s.x.data<float>(), d, rows, in, width, width);
    }
    if (grads.wants(kX)) {
      const Grads::Target dx = grads.into(kX, s.x.shape(), device);
      cpu::linear_backward_data(dx.tensor.data<float>(), dx.add, d, s.weight_ih.data<float>(), rows, in, width);
    }
  });
}

}  // namespace

Tensor lstm(const Tensor& x, const LstmWeights& w, LstmState& state) {
  const Extents e = checked(x, w, state);
  const Device device = x.device();
  const Shape states{e.steps + 1, e.batch, e.hidden};
  const Saved s{e,
                x.value(),
                w.weight_ih.value(),
                w.weight_hh.value(),
                Tensor::empty({e.steps, e.batch, e.gates()}, DType::f32, device),
                Tensor::empty(states, DType::f32, device),
                Tensor::empty(states, DType::f32, device)};
  on_device(device, [&] { forward(s, w, state); });
  const auto last = [&](const Tensor& all) {  // a copy, so that the state does not keep the sequence
    const Tensor t = Tensor::empty({e.batch, e.hidden}, DType::f32, device);
    t.copy_from(all.rows(e.steps, 1).view({e.batch, e.hidden}));
    return t;
  };
  state = {last(s.h), last(s.c)};
  return record("lstm", s.h.rows(1, e.steps), {x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
