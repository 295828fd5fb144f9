#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "core/device.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace laconic {

inline constexpr Device kCuda{Device::Kind::cuda, 0};

/// Tests that are skipped where there is no CUDA device.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices() == 0) GTEST_SKIP() << "no CUDA device can be used here";
  }
};

/// These, and a CUDA device where there is one.
inline std::vector<Device> with_cuda(std::vector<Device> devices = {kCpu}) {
  if (cuda_devices() > 0) devices.push_back(kCuda);
  return devices;
}

/// A copy on a device, in the same layout.
inline Tensor copied(const Tensor& t, Device device) {
  const Tensor copy = Tensor::empty(t.shape(), t.dtype(), device, t.layout());
  copy.copy_from(t);
  return copy;
}

}  // namespace laconic
