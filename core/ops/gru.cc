#include "core/ops/gru.h"

#include <algorithm>

#include "core/cpu/elementwise.h"
#include "core/cpu/gru.h"
#include "core/cpu/matmul.h"
#include "core/cpu/packed_matmul.h"
#include "core/dispatch.h"

namespace laconic::ops {
namespace {

/// All that a backward pass reads. h has one step more than x: the first is the initial state.
struct Saved {
  RecurrentExtents e;
  Tensor x, weight_ih, weight_hh, gates, q, h;
};

void forward(const Saved& s, const RecurrentWeights& w, const Tensor& state) {
  const auto [T, B, in, H, width] = s.e;
  const std::int64_t state_size = B * H;
  std::copy_n(state.data<float>(), state_size, s.h.data<float>());
  cpu::linear_forward(s.gates.data<float>(), s.x.data<float>(), s.weight_ih.data<float>(), w.bias_ih.data<float>(),
                      T * B, in, width, false);
  const Tensor part = Tensor::empty({B, width});
  const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), true, false, B, H, width);
  for (std::int64_t t = 0; t < T; ++t) {
    float* h = s.h.data<float>() + t * state_size;
    recurrent.run(part.data<float>(), h);
    cpu::gru_cell_forward(s.gates.data<float>() + t * B * width, s.q.data<float>() + t * state_size, h + state_size,
                          part.data<float>(), w.bias_hh.data<float>(), h, B, H);
  }
}

void backward(const Saved& s, const Tensor& dy, Grads& grads) {
  const auto [T, B, in, H, width] = s.e;
  const std::int64_t rows = T * B, state_size = B * H;
  const Device device = s.x.device();
  const Tensor dgates = Tensor::empty(s.gates.shape(), DType::f32, device),
               drecurrent = Tensor::empty(s.gates.shape(), DType::f32, device);
  on_device(device, [&] {
    const float *d = dgates.data<float>(), *dr = drecurrent.data<float>();
    const Tensor dh = Tensor::zeros({B, H});
    const cpu::PackedMatmul recurrent(s.weight_hh.data<float>(), false, true, B, width, H);
    for (std::int64_t t = T - 1; t >= 0; --t) {
      if (t + 1 < T) recurrent.run(dh.data<float>(), dr + (t + 1) * B * width);
      cpu::add(dh.data<float>(), dy.data<float>() + t * state_size, state_size);
      cpu::gru_cell_backward(dgates.data<float>() + t * B * width, drecurrent.data<float>() + t * B * width,
                             dh.data<float>(), s.gates.data<float>() + t * B * width,
                             s.q.data<float>() + t * state_size, s.h.data<float>() + t * state_size, B, H);
    }
    for (const auto& [bias, sums] : {std::pair{kBiasHh, dr}, std::pair{kBiasIh, d}}) {
      if (!grads.wants(bias)) continue;
      const Grads::Target db = grads.into(bias, {width}, device);
      cpu::sum_rows(db.tensor.data<float>(), sums, rows, width, db.add);
    }
    recurrent_weight_gradient(grads, kWeightHh, s.h.data<float>(), dr, rows, H, width, device);
    recurrent_weight_gradient(grads, kWeightIh, s.x.data<float>(), d, rows, in, width, device);
    recurrent_data_gradient(grads, s.x, s.weight_ih, d);
  });
}

}  // namespace

Tensor gru(const Tensor& x, const RecurrentWeights& w, Tensor& state) {
  const RecurrentExtents e = recurrent_extents("gru", x, w, 3, {state});
  const Device device = x.device();
  const Saved s{e,
                x.value(),
                w.weight_ih.value(),
                w.weight_hh.value(),
                Tensor::empty({e.steps, e.batch, e.width}, DType::f32, device),
                Tensor::empty({e.steps, e.batch, e.hidden}, DType::f32, device),
                Tensor::empty({e.steps + 1, e.batch, e.hidden}, DType::f32, device)};
  on_device(device, [&] { forward(s, w, state); });
  state = last_step(s.h);
  return record("gru", s.h.rows(1, e.steps), {x, w.weight_ih, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
