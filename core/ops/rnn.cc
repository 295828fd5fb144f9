#include "core/ops/rnn.h"

#include "core/cpu/elementwise.h"
#include "core/cuda/bias.h"
#include "core/cuda/elementwise.h"
#include "core/dispatch.h"
#include "core/ops/weight_gradient.h"
#include "core/precision.h"
#include "core/raw.h"

namespace laconic::ops {
namespace {

/// All that a backward pass reads. h has one step more than the input: the first is the initial state.
struct RnnSaved {
  RecurrentExtents e;
  Nonlinearity f;
  Tensor weight_hh, h;
};

void forward(const RnnSaved& s, const Tensor& input, const RecurrentWeights& w, const Tensor& state) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Device device = s.h.device();
  const Tensor bias = raw::add(w.bias_ih.value(), w.bias_hh.value());
  s.h.rows(0, 1).view({B, H}).copy_from(state);
  float* sums = s.h.data<float>() + state_size;
  on_device(
      device,
      [&] {
        for (std::int64_t row = 0; row < T * B; ++row)
          cpu::add(sums + row * H, input.data<float>() + row * H, bias.data<float>(), H);
      },
      [&] { cuda::add_bias(sums, input.data<float>(), bias.data<float>(), T * B, H, H, false); });
  const RecurrentProduct recurrent(device, s.weight_hh, true, true, B);
  for (std::int64_t t = 0; t < T; ++t) {
    const float* before = s.h.data<float>() + t * state_size;
    float* h = s.h.data<float>() + (t + 1) * state_size;
    recurrent.run(h, before);
    if (s.f == Nonlinearity::tanh)
      LACONIC_KERNEL(device, tanh_forward(h, h, state_size));
    else
      LACONIC_KERNEL(device, relu(h, state_size));
  }
}

/// dsums: the gradients of h of every step from outside in, those of the sums out.
void backward_through_time(const RnnSaved& s, const Tensor& dsums) {
  const auto [T, B, H, width] = s.e;
  const std::int64_t state_size = B * H;
  const Device device = s.h.device();
  const RecurrentProduct recurrent(device, s.weight_hh, false, true, B);
  for (std::int64_t t = T - 1; t >= 0; --t) {
    float* d = dsums.data<float>() + t * state_size;
    if (t + 1 < T) recurrent.run(d, d + state_size);
    const float* h = s.h.data<float>() + (t + 1) * state_size;
    if (s.f == Nonlinearity::tanh)
      LACONIC_KERNEL(device, tanh_backward(d, d, h, state_size));
    else
      LACONIC_KERNEL(device, relu_backward(d, d, h, state_size));
  }
}

void backward(const RnnSaved& s, const Tensor& dy, Grads& grads) {
  const Tensor dsums = Tensor::empty(dy.shape(), DType::f32, dy.device());
  dsums.copy_from(dy);
  backward_through_time(s, dsums);
  bias_gradients(grads, {kBiasHh, kBiasIh}, dsums);
  const DType type = product_dtype(dy.device());
  weight_gradient(grads, kWeightHh, raw::rounded(s.h, type), raw::rounded(dsums, type), s.e.steps * s.e.batch,
                  s.e.hidden, s.e.width);
  if (grads.wants(kInputPart)) grads.put(kInputPart, dsums);
}

}  // namespace

Tensor rnn(const Tensor& input, const RecurrentWeights& w, Tensor& state, Nonlinearity f) {
  const RecurrentExtents e = recurrent_extents("rnn", input, w, 1, {state});
  const Device device = input.device();
  const RnnSaved s{e, f, w.weight_hh.value(), Tensor::empty({e.steps + 1, e.batch, e.hidden}, DType::f32, device)};
  forward(s, input, w, state);
  state = last_step(s.h);
  return record("rnn", s.h.rows(1, e.steps), {input, w.weight_hh, w.bias_ih, w.bias_hh},
                [s](const Tensor& dy, Grads& grads) { backward(s, dy, grads); });
}

}  // namespace laconic::ops
