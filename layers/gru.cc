#include "layers/gru.h"

#include "core/ops/gru.h"

namespace laconic {

Tensor GRU::forward(const Tensor& x) {
  Tensor zeros;
  return run(x, zeros);
}

Tensor GRU::operator()(const Tensor& x, Tensor& state) {
  return call([&] { return run(x, state); });
}

Tensor GRU::run(const Tensor& x, Tensor& state) { return run_layers(x, state, ops::gru); }

}  // namespace laconic
