#include "core/ops/gru.h"

#include "core/cpu/elementwise.h"
#include "core/cpu/gru.h"
#include "core/cuda/elementwise.h"
#include "core/cuda/gru.h"
#include "core/dispatch.h"
#include "core/ops/weight_gradient.h"
#include "core/precision.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

/// All that a backward pass reads. h has one step more than the input: the first is the initial state.
struct GruSaved {
  RecurrentExtents e;
  Tensor weight_hh, gates, q, h;
};

void forward(const GruSaved& s, const RecurrentWeights& w, const Tensor& state) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Device device = s.h.device();
  s.h.rows(0, 1).view({B, H}).copy_from(state);
  const Tensor part = Tensor::empty({B, width}, DType::f32, device);
  const RecurrentProduct recurrent(device, s.weight_hh, true, false, B);
  for (std::int64_t t = 0; t < T; ++t) {
    float* h = s.h.data<float>() + t * state_size;
    recurrent.run(part.data<float>(), h);
    LACONIC_KERNEL(device, gru_cell_forward(s.gates.data<float>() + t * B * width, s.q.data<float>() + t * state_size,
                                            h + state_size, part.data<float>(), w.bias_ih.data<float>(),
                                            w.bias_hh.data<float>(), h, B, H));
  }
}

/// Leaves the gradients of the gates' input part in the gates' memory, those of the recurrent part in drecurrent.
void backward_through_time(const GruSaved& s, float* drecurrent, const float* dy) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Device device = s.h.device();
  const Tensor dh = Tensor::zeros({B, H}, DType::f32, device);
  const RecurrentProduct recurrent(device, s.weight_hh, false, true, B);
  for (std::int64_t t = T - 1; t >= 0; --t) {
    float* dr = drecurrent + t * B * width;
    if (t + 1 < T) recurrent.run(dh.data<float>(), dr + B * width);
    LACONIC_KERNEL(device, add(dh.data<float>(), dy + t * state_size, state_size));
    LACONIC_KERNEL(device,
                   gru_cell_backward(s.gates.data<float>() + t * B * width, dr, dh.data<float>(),
                                     s.q.data<float>() + t * state_size, s.h.data<float>() + t * state_size, B, H));
  }
}

void backward(const GruSaved& s, const Tensor& dy, Grads& grads) {
  const Tensor drecurrent = Tensor::empty(s.gates.shape(), DType::f32, dy.device());
  backward_through_time(s, drecurrent.data<float>(), dy.data<float>());
  bias_gradients(grads, {kBiasHh}, drecurrent);
  bias_gradients(grads, {kBiasIh}, s.gates);
  const DType type = product_dtype(dy.device());
  weight_gradient(grads, kWeightHh, raw::rounded(s.h, type), raw::rounded(drecurrent, type), s.e.steps * s.e.batch,
                  s.e.hidden, s.e.width);
  if (grads.wants(kInputPart)) grads.put(kInputPart, s.gates);
}

}  // namespace

Tensor gru(Tensor input, const RecurrentWeights& w, Tensor& state) {
  const RecurrentExtents e = recurrent_extents("gru", input, w, 3, {state});
  const Device device = input.device();
  const Tensor history = Tensor().with_node(input.node());
  const GruSaved s{e, w.weight_hh.value(), own_memory(std::move(input)),
                   Tensor::empty({e.steps, e.batch, e.hidden}, DType::f32, device),
                   Tensor::empty({e.steps + 1, e.batch, e.hidden}, DType::f32, device)};
  forward(s, w, state);
  state = last_step(s.h);
  return record("gru", s.h.rows(1, e.steps), {history, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
