#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/stream.h"
#include "core/tensor.h"

namespace laconic {

inline constexpr Device kCuda{Device::Kind::cuda, 0};

/// LACONIC_TEST_NEEDS_CUDA=1: on a machine that has a GPU, so that one that cannot be used does not pass as skipped.
inline bool cuda_is_demanded() {
  const char* value = std::getenv("LACONIC_TEST_NEEDS_CUDA");
  return value && std::string_view(value) == "1";
}

/// Ends a test where there is no CUDA device: skipped, or failed if one is demanded.
#define NEEDS_CUDA()                                                                                    \
  if (laconic::cuda_devices() > 0) {                                                                    \
  } else if (laconic::cuda_is_demanded()) {                                                             \
    FAIL() << "no CUDA device can be used here, and LACONIC_TEST_NEEDS_CUDA=1 says that one should be"; \
  } else                                                                                                \
    GTEST_SKIP() << "no CUDA device can be used here"

/// Tests that need a CUDA device.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override { NEEDS_CUDA(); }
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
