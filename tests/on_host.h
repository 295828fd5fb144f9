#pragma once
#include <vector>

#include "core/memory.h"
#include "core/tensor.h"

namespace laconic {

/// The values of a tensor for a test that reads and writes them one by one, wherever they lie; written back at the end.
class OnHost {
 public:
  explicit OnHost(const Tensor& tensor) : tensor_(tensor), access_(tensor.device()) {
    if (copied()) copy_ = tensor.to_vector();
  }
  ~OnHost() {
    if (copied()) tensor_.copy_from(Tensor::of(tensor_.shape(), copy_));
  }
  OnHost(const OnHost&) = delete;
  OnHost& operator=(const OnHost&) = delete;

  float* data() { return copied() ? copy_.data() : tensor_.data<float>(); }
  float& operator[](std::int64_t i) { return data()[i]; }

 private:
  bool copied() const { return tensor_.device().kind == Device::Kind::cuda; }
  const Tensor tensor_;
  HostAccess access_;
  std::vector<float> copy_;
};

}  // namespace laconic
