#pragma once
#include <cstddef>
#include <memory>

#include "core/memory.h"
#include "core/slice.h"

namespace laconic::compress {

/// A copy on another device. From host memory to a CUDA device it goes through pinned memory, and the host does not
/// wait; towards host memory it does.
std::unique_ptr<Storage> copy_on(Device device, const void* from, Device from_device, std::size_t bytes);

/// Values on a device: themselves if they lie there, else a copy for as long as this lives.
template <class T>
class Mirrored {
 public:
  Mirrored(Slice<const T> values, Device device) : values_(values) {
    if (values.device() == device || values.empty()) return;
    copy_ = copy_on(device, values.data(), values.device(), values.size_bytes());
    values_ = {reinterpret_cast<const T*>(copy_->data()), values.size(), device};
  }
  const T* data() const { return values_.data(); }
  Slice<const T> slice() const { return values_; }

 private:
  Slice<const T> values_;
  std::unique_ptr<Storage> copy_;
};

}  // namespace laconic::compress
