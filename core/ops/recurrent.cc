#include "core/ops/recurrent.h"

#include "core/cpu/matmul.h"

namespace laconic::ops {

RecurrentExtents recurrent_extents(const char* what, const Tensor& x, const RecurrentWeights& w, int gates,
                                   std::initializer_list<std::reference_wrapper<const Tensor>> states) {
  require<ShapeError>(x.rank() == 3 && x.dim(0) >= 1 && x.dim(1) >= 1, what, ": x is ", x.shape(),
                      ", not [T, B, in] with at least one step and one row.");
  require<ShapeError>(w.weight_ih.rank() == 2 && w.weight_hh.rank() == 2, what, ": the weights are ",
                      w.weight_ih.shape(), " and ", w.weight_hh.shape(), ", not matrices.");
  const std::int64_t hidden = w.weight_hh.dim(1), width = gates * hidden;
  const Shape ih{width, x.dim(2)}, hh{width, hidden}, bias{width}, state{x.dim(1), hidden};
  require<ShapeError>(w.weight_ih.shape() == ih && w.weight_hh.shape() == hh, what, ": x is ", x.shape(),
                      " but weight_ih is ", w.weight_ih.shape(), " and weight_hh ", w.weight_hh.shape(),
                      ": they must be ", ih, " and ", hh, ".");
  require<ShapeError>(w.bias_ih.shape() == bias && w.bias_hh.shape() == bias, what, ": the biases are ",
                      w.bias_ih.shape(), " and ", w.bias_hh.shape(), ", not ", bias, ".");
  for (const Tensor& s : states)
    require<ShapeError>(s.defined() && s.shape() == state, what, ": the initial state is ",
                        s.defined() ? concat(s.shape()) : "undefined", ", not ", state, ".");
  return {x.dim(0), x.dim(1), x.dim(2), hidden, width};
}

void recurrent_weight_gradient(Grads& grads, int weight, const float* input, const float* dgates, std::int64_t rows,
                               std::int64_t in, std::int64_t width, Device device) {
  if (!grads.wants(weight)) return;
  const Grads::Target dw = grads.into(weight, {width, in}, device);
  cpu::linear_backward_weights(dw.tensor.data<float>(), dw.add, input, dgates, rows, in, width, width);
}

void recurrent_data_gradient(Grads& grads, const Tensor& x, const Tensor& weight_ih, const float* dgates) {
  if (!grads.wants(kRecurrentX)) return;
  const Grads::Target dx = grads.into(kRecurrentX, x.shape(), x.device());
  cpu::linear_backward_data(dx.tensor.data<float>(), dx.add, dgates, weight_ih.data<float>(), x.dim(0) * x.dim(1),
                            x.dim(2), weight_ih.dim(0));
}

Tensor last_step(const Tensor& all) {
  const Tensor t = Tensor::empty({all.dim(1), all.dim(2)}, DType::f32, all.device());
  t.copy_from(all.rows(all.dim(0) - 1, 1).view(t.shape()));
  return t;
}

}  // namespace laconic::ops
