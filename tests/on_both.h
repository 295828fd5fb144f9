#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "core/raw.h"
#include "tests/cuda_devices.h"
#include "tests/tensors.h"

namespace laconic {

/// x rounded to bf16, recorded.
inline Tensor rounding(const Tensor& x) {
  return record("rounding", raw::cast(x, DType::bf16), {x}, [](const Tensor& dy, Grads& grads) { grads.put(0, dy); });
}

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

/// Expects that an operation takes activations in bf16 on a CUDA device, if there is one, and gives what it gives for
/// these numbers in float32, but for rounding. Activations are the first input and those of its shape.
inline void expect_near_in_bf16(const std::function<Tensor(const std::vector<Tensor>&)>& op,
                                const std::vector<Tensor>& inputs, float least = 0) {
  if (cuda_devices() == 0) return;
  SCOPED_TRACE("bf16");
  const auto is_activation = [&](const Tensor& t) { return t.shape() == inputs[0].shape(); };
  std::vector<Tensor> rounded;
  for (const Tensor& t : inputs)
    rounded.push_back(is_activation(t) ? raw::cast(raw::cast(t, DType::bf16), DType::f32) : t);
  const auto in_bf16 = [&](const std::vector<Tensor>& t) {
    std::vector<Tensor> x;
    for (const Tensor& v : t) x.push_back(is_activation(v) ? rounding(v) : v);
    return op(x);
  };
  const Derivatives expected = derivatives(op, rounded, kCuda), got = derivatives(in_bf16, rounded, kCuda);
  expect_close(got.y, expected.y, 2e-2f, "y", least);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(concat("input ", i));
    expect_close(got.of_inputs[i], expected.of_inputs[i], 2e-2f, "gradient", least);
  }
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
  expect_near_in_bf16(op, inputs, least);
}

}  // namespace laconic
