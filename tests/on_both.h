#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "tests/cuda_devices.h"
#include "tests/tensors.h"

namespace laconic {

struct Derivatives {
  Tensor y;
  std::vector<Tensor> of_inputs;
};

/// y = op(inputs), and the gradients of sum(dy * y), dy the same random numbers on every device.
inline Derivatives derivatives(const std::function<Tensor(const std::vector<Tensor>&)>& op,
                               const std::vector<Tensor>& inputs, Device device) {
  std::vector<std::shared_ptr<Leaf>> leaves;
  std::vector<Tensor> x;
  for (const Tensor& t : inputs) {
    leaves.push_back(std::make_shared<Leaf>());
    x.push_back(with_gradient(copied(t, device), leaves.back()));
  }
  Derivatives d{op(x), {}};
  const Tensor dy = copied(random_tensor(d.y.shape(), 99), device);
  if (d.y.elements() == 1) {
    laconic::backward(d.y, dy.item());  // a loss: it begins at the operation itself
  } else {
    with_upstream(d.y, dy).backward();
  }
  for (const auto& leaf : leaves) d.of_inputs.push_back(leaf->grad);
  return d;
}

/// Expects the values and gradients of a CUDA device, if there is one, within `tolerance` of the CPU's; `least` as
/// expect_close takes it.
inline void expect_same_on_cuda(const char* name, const std::function<Tensor(const std::vector<Tensor>&)>& op,
                                const std::vector<Tensor>& inputs, float tolerance, float least = 0) {
  if (cuda_devices() == 0) return;
  SCOPED_TRACE(name);
  const Derivatives expected = derivatives(op, inputs, kCpu), got = derivatives(op, inputs, kCuda);
  EXPECT_EQ(got.y.device(), kCuda);
  expect_close(got.y, expected.y, tolerance, "y", least);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(concat("input ", i));
    expect_close(got.of_inputs[i], expected.of_inputs[i], tolerance, "gradient", least);
  }
}

}  // namespace laconic
