#pragma once
#include <cstddef>
#include <cstring>
#include <vector>

#include "core/slice.h"
#include "core/stream.h"
#include "core/tensor.h"
#include "tests/cuda_devices.h"

/// For tests that say the same of every device: the CPU, and CUDA where there is one.
namespace laconic {

inline std::vector<Device> test_devices() {
  return cuda_devices() > 0 ? std::vector<Device>{kCpu, kCuda} : std::vector<Device>{kCpu};
}

/// Values on a device, which are not aligned to more than their own size if `shift` is odd.
template <class T>
class Placed {
 public:
  Placed(const std::vector<T>& values, Device device, std::size_t shift = 0)
      : storage_((values.size() + shift) * sizeof(T) + 1, device), size_(values.size()), shift_(shift) {
    copy_bytes(slice().data(), device, values.data(), kCpu, size_ * sizeof(T));
  }
  Slice<T> slice() const { return {reinterpret_cast<T*>(storage_.data()) + shift_, size_, storage_.device()}; }
  operator Slice<T>() const { return slice(); }
  operator Slice<const T>() const { return slice(); }

 private:
  Storage storage_;
  std::size_t size_, shift_;
};

/// What lies there, in host memory.
template <class T>
std::vector<std::remove_const_t<T>> host_values(Slice<T> x) {
  std::vector<std::remove_const_t<T>> values(x.size());
  copy_bytes(values.data(), kCpu, x.data(), x.device(), x.size_bytes());
  return values;
}

}  // namespace laconic
