#include "core/ops/recurrent.h"

#include "core/cpu/elementwise.h"
#include "core/cuda/elementwise.h"
#include "core/cuda/matmul.h"
#include "core/cuda/rounding.h"
#include "core/dispatch.h"
#include "core/ops/one_device.h"
#include "core/precision.h"
#include "core/raw.h"

namespace laconic::ops {

RecurrentExtents recurrent_extents(const char* what, const Tensor& input, const RecurrentWeights& w, int gates,
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
  return {input.dim(0), input.dim(1), hidden, width};
}

RecurrentProduct::RecurrentProduct(Device device, const Tensor& m, bool transposed, bool add, std::int64_t rows)
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

void RecurrentProduct::run(float* y, const float* x) const {
  on_device(
      device_, [&] { packed_->run(y, x); },
      [&] {
        if (x_.defined()) cuda::to_bf16(x_.data<BFloat16>(), x, rows_ * in_);
        const cuda::Factor factor = x_.defined() ? cuda::Factor(x_) : cuda::Factor(x), m(m_);
        if (transposed_)
          cuda::linear_forward(y, add_, factor, m, nullptr, rows_, in_, out_, out_, false);
        else
          cuda::linear_backward_data(y, add_, factor, m, rows_, out_, in_);
      });
}

Tensor own_memory(Tensor t) {
  if (t.sole_owner()) return t.value();
  const Tensor copy = Tensor::empty(t.shape(), DType::f32, t.device());
  copy.copy_from(t);
  return copy;
}

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

Tensor last_step(const Tensor& all) {
  const Tensor t = Tensor::empty({all.dim(1), all.dim(2)}, DType::f32, all.device());
  t.copy_from(all.rows(all.dim(0) - 1, 1).view(t.shape()));
  return t;
}

}  // namespace laconic::ops
