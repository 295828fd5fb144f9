#include "core/ops/recurrent.h"

#include <optional>

#include "core/kernels/elementwise.h"
#include "core/kernels/products.h"
#include "core/kernels/rows.h"
#include "core/ops/common.h"
#include "core/precision.h"

namespace laconic::inline ops {
namespace {

struct Extents {
  std::int64_t steps, batch, hidden;
};

/// The extents of an input part [T, B, G H]. Throws ShapeError if it, the weights for that many gates, or a state
/// [B, H] do not fit, or are on different devices.
Extents extents_of(const char* what, const Tensor& input, const RecurrentWeights& w, int gates,
                   std::initializer_list<std::reference_wrapper<const Tensor>> states) {
  require<ShapeError>(input.rank() == 3 && input.dim(0) >= 1 && input.dim(1) >= 1, what, ": the input part is ",
                      input.shape(), ", not [T, B, ", gates, " H] with at least one step and one row.");
  require<ShapeError>(w.weight_hh.rank() == 2, what, ": weight_hh is ", w.weight_hh.shape(), ", not a matrix.");
  const std::int64_t hidden = w.weight_hh.dim(1), width = gates * hidden;
  const Shape hh{width, hidden}, bias{width}, state{input.dim(1), hidden};
  require<ShapeError>(w.weight_hh.shape() == hh && input.dim(2) == width, what, ": the input part is ", input.shape(),
                      " but weight_hh is ", w.weight_hh.shape(), ": it must be ", hh, ", and the input part ", width,
                      " wide.");
  require<ShapeError>(w.bias_ih.shape() == bias && w.bias_hh.shape() == bias, what, ": the biases are ",
                      w.bias_ih.shape(), " and ", w.bias_hh.shape(), ", not ", bias, ".");
  for (const Tensor& s : states) {
    require<ShapeError>(s.defined() && s.shape() == state, what, ": the initial state is ",
                        s.defined() ? concat(s.shape()) : "undefined", ", not ", state, ".");
    require_one_device(what, {{"the input part", input}, {"the initial state", s}});
  }
  require_one_device(
      what, {{"the input part", input}, {"weight_hh", w.weight_hh}, {"bias_ih", w.bias_ih}, {"bias_hh", w.bias_hh}});
  return {input.dim(0), input.dim(1), hidden};
}

/// y (+)= x m for one matrix m and the x of one time step after another. On the CPU m is packed once
/// (cpu::PackedMatmul); a CUDA device reads it where it is, or rounded once (core/precision.h).
///   x : [rows, in]   y : [rows, out]   m : [in, out], or its transpose [out, in] if so said
class RecurrentProduct {
 public:
  /// device: where x and y are (m too, but for ghosts)
  RecurrentProduct(Device device, const Tensor& m, bool transposed, bool add, std::int64_t rows)
      : device_(device),
        m_(raw::rounded_parameter(m, product_dtype(device))),
        transposed_(transposed),
        add_(add),
        rows_(rows),
        in_(m.dim(transposed ? 1 : 0)),
        out_(m.dim(transposed ? 0 : 1)) {
    on_device(
        device, [&] { packed_.emplace(m.data<float>(), transposed, add, rows, in_, out_); },
        [&] {
          if (m_.dtype() == DType::bf16) x_ = Tensor::empty({rows, in_}, DType::bf16, device);
        });
  }
  void run(float* y, const float* x) const {
    on_device(
        device_, [&] { packed_->run(y, x); },
        [&] {
          if (x_.defined()) cuda::cast(x_.data<BFloat16>(), x, rows_ * in_);
          const cuda::Factor factor = x_.defined() ? cuda::Factor(x_) : cuda::Factor(x), m(m_);
          if (transposed_)
            cuda::linear_forward(y, add_, factor, m, nullptr, rows_, in_, out_, out_, false);
          else
            cuda::linear_backward_data(y, add_, factor, m, rows_, out_, in_);
        });
  }

 private:
  Device device_;
  Tensor m_;  ///< the matrix in the type of products
  bool transposed_, add_;
  std::int64_t rows_, in_, out_;
  std::optional<cpu::PackedMatmul> packed_;
  Tensor x_;  ///< x rounded, if m is
};

/// The memory of `t` if nobody else holds it, so that it may be written into; else of a copy. bf16 is widened.
Tensor own_memory(Tensor t) {
  if (t.dtype() == DType::bf16) return raw::cast(t, DType::f32);
  if (t.sole_owner()) return t.value();
  const Tensor copy = Tensor::empty(t.shape(), DType::f32, t.device());
  copy.copy_from(t);
  return copy;
}

/// Step t of [steps, B, width].
float* step(const Tensor& all, std::int64_t t) { return all.data<float>() + t * all.dim(1) * all.dim(2); }

/// Room for the state after each step, [steps + 1, B, H]: the first is the initial one.
Tensor states_from(const Tensor& initial, std::int64_t steps, Device device) {
  const Tensor all = Tensor::empty({steps + 1, initial.dim(0), initial.dim(1)}, DType::f32, device);
  all.rows(0, 1).view(initial.shape()).copy_from(raw::cast(initial, DType::f32));
  return all;
}
/// The last of them as [B, H], copied so that it does not keep the sequence.
Tensor last_of(const Tensor& states) {
  const Tensor t = Tensor::empty({states.dim(1), states.dim(2)}, DType::f32, states.device());
  t.copy_from(states.rows(states.dim(0) - 1, 1).view(t.shape()));
  return t;
}

// Inputs of a recorded recurrence.
constexpr int kInputPart = 0, kWeightHh = 1, kBiasIh = 2, kBiasHh = 3;

/// The result, h without its initial state, with its derivative. input : for its history alone
Tensor recorded(const char* what, const Tensor& h, const Tensor& input, const RecurrentWeights& w, Backward backward) {
  return record(what, h.rows(1, h.dim(0) - 1), {input, w.weight_hh, w.bias_ih, w.bias_hh}, std::move(backward));
}

/// The gradient of biases that are all added to the same sums: dgates [T, B, width] added up over steps and batch.
void bias_gradients(Grads& grads, std::initializer_list<int> biases, const Tensor& dgates) {
  const std::int64_t width = dgates.dim(2);
  Tensor sum;
  for (const int i : biases) {
    if (!grads.wants(i)) continue;
    const Grads::Target db = grads.into(i, {width}, dgates.device());
    if (!sum.defined()) {
      sum = Tensor::empty({width}, DType::f32, dgates.device());
      LACONIC_KERNEL(dgates.device(),
                     sum_rows(sum.data<float>(), dgates.data<float>(), dgates.dim(0) * dgates.dim(1), width, false));
    }
    if (db.add)
      LACONIC_KERNEL(dgates.device(), add(db.tensor.data<float>(), sum.data<float>(), width));
    else
      db.tensor.copy_from(sum);
  }
}

/// The gradients of W_hh and of the input part, after the gradients of the biases. drecurrent, dinput : gradients of
/// what was added to the gates
void put_gradients(Grads& grads, const Tensor& h, const Tensor& drecurrent, const Tensor& dinput) {
  const DType type = product_dtype(h.device());
  weight_gradient(grads, kWeightHh, raw::cast(h, type), raw::cast(drecurrent, type), dinput.dim(0) * dinput.dim(1),
                  h.dim(2), dinput.dim(2));
  if (grads.wants(kInputPart)) grads.put(kInputPart, dinput);
}

}  // namespace

Tensor lstm(Tensor input, const RecurrentWeights& w, LstmState& state) {
  const Extents e = extents_of("lstm", input, w, 4, {state.h, state.c});
  const std::int64_t T = e.steps, B = e.batch, H = e.hidden;
  const Device device = input.device();
  const Tensor history = Tensor().with_node(input.node()), weight = w.weight_hh.value();
  const Tensor bias = raw::add(w.bias_ih.value(), w.bias_hh.value()), gates = own_memory(std::move(input));
  const Tensor h = states_from(state.h, T, device), c = states_from(state.c, T, device);
  const RecurrentProduct recurrent(device, weight, true, true, B);
  for (std::int64_t t = 0; t < T; ++t) {
    recurrent.run(step(gates, t), step(h, t));
    LACONIC_KERNEL(device, lstm_cell_forward(step(gates, t), step(c, t + 1), step(h, t + 1), bias.data<float>(),
                                             step(c, t), B, H));
  }
  state = {last_of(h), last_of(c)};
  // The gradients of the gates' sums take the gates' memory.
  return recorded("lstm", h, history, w, [=](const Tensor& dy, Grads& grads) {
    const Tensor dc = Tensor::zeros({B, H}, DType::f32, device), dh = Tensor::zeros({B, H}, DType::f32, device);
    const RecurrentProduct back(device, weight, false, false, B);
    for (std::int64_t t = T - 1; t >= 0; --t) {
      if (t + 1 < T) back.run(dh.data<float>(), step(gates, t + 1));
      LACONIC_KERNEL(device, lstm_cell_backward(step(gates, t), dc.data<float>(), step(dy, t), dh.data<float>(),
                                                step(c, t + 1), step(c, t), B, H));
    }
    bias_gradients(grads, {kBiasHh, kBiasIh}, gates);
    put_gradients(grads, h, gates, gates);
  });
}

Tensor gru(Tensor input, const RecurrentWeights& w, Tensor& state) {
  const Extents e = extents_of("gru", input, w, 3, {state});
  const std::int64_t T = e.steps, B = e.batch, H = e.hidden;
  const Device device = input.device();
  const Tensor history = Tensor().with_node(input.node()), weight = w.weight_hh.value();
  const Tensor gates = own_memory(std::move(input)), h = states_from(state, T, device);
  const Tensor q = Tensor::empty({T, B, H}, DType::f32, device), part = Tensor::empty({B, 3 * H}, DType::f32, device);
  const RecurrentProduct recurrent(device, weight, true, false, B);
  for (std::int64_t t = 0; t < T; ++t) {
    recurrent.run(part.data<float>(), step(h, t));
    LACONIC_KERNEL(device, gru_cell_forward(step(gates, t), step(q, t), step(h, t + 1), part.data<float>(),
                                            w.bias_ih.data<float>(), w.bias_hh.data<float>(), step(h, t), B, H));
  }
  state = last_of(h);
  // The gradients of the gates' input part take the gates' memory.
  return recorded("gru", h, history, w, [=](const Tensor& dy, Grads& grads) {
    const Tensor drecurrent = Tensor::like(gates), dh = Tensor::zeros({B, H}, DType::f32, device);
    const RecurrentProduct back(device, weight, false, true, B);
    for (std::int64_t t = T - 1; t >= 0; --t) {
      if (t + 1 < T) back.run(dh.data<float>(), step(drecurrent, t + 1));
      LACONIC_KERNEL(device, add(dh.data<float>(), step(dy, t), B * H));
      LACONIC_KERNEL(device, gru_cell_backward(step(gates, t), step(drecurrent, t), dh.data<float>(), step(q, t),
                                               step(h, t), B, H));
    }
    bias_gradients(grads, {kBiasHh}, drecurrent);
    bias_gradients(grads, {kBiasIh}, gates);
    put_gradients(grads, h, drecurrent, gates);
  });
}

Tensor rnn(const Tensor& input, const RecurrentWeights& w, Tensor& state, Nonlinearity f) {
  const Extents e = extents_of("rnn", input, w, 1, {state});
  const std::int64_t T = e.steps, B = e.batch, H = e.hidden;
  const Device device = input.device();
  const Tensor weight = w.weight_hh.value(), h = states_from(state, T, device);
  const Tensor bias = raw::add(w.bias_ih.value(), w.bias_hh.value());
  on_device(
      device,
      [&] {
        for (std::int64_t row = 0; row < T * B; ++row)
          cpu::add(step(h, 1) + row * H, input.data<float>() + row * H, bias.data<float>(), H);
      },
      [&] { cuda::add_bias(step(h, 1), floats("rnn", input).data<float>(), bias.data<float>(), T * B, H, H, false); });
  const RecurrentProduct recurrent(device, weight, true, true, B);
  for (std::int64_t t = 1; t <= T; ++t) {
    recurrent.run(step(h, t), step(h, t - 1));
    if (f == Nonlinearity::tanh)
      LACONIC_KERNEL(device, tanh_forward(step(h, t), step(h, t), B * H));
    else
      LACONIC_KERNEL(device, relu(step(h, t), B * H));
  }
  state = last_of(h);
  return recorded("rnn", h, input, w, [=](const Tensor& dy, Grads& grads) {
    // The gradients of every step's h from outside become the sums' gradients.
    const Tensor dsums = Tensor::empty(dy.shape(), DType::f32, device);
    dsums.copy_from(dy);
    const RecurrentProduct back(device, weight, false, true, B);
    for (std::int64_t t = T - 1; t >= 0; --t) {
      float* d = step(dsums, t);
      if (t + 1 < T) back.run(d, step(dsums, t + 1));
      if (f == Nonlinearity::tanh)
        LACONIC_KERNEL(device, tanh_backward(d, d, step(h, t + 1), B * H));
      else
        LACONIC_KERNEL(device, relu_backward(d, d, step(h, t + 1), B * H));
    }
    bias_gradients(grads, {kBiasHh, kBiasIh}, dsums);
    put_gradients(grads, h, dsums, dsums);
  });
}

}  // namespace laconic::inline ops
