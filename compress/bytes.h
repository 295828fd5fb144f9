#pragma once
#include <cstddef>
#include <memory>
#include <utility>

#include "core/memory.h"
#include "core/slice.h"
#include "core/stream.h"

namespace laconic::compress {

/// A growable run of bytes on one device, from the caching allocator: what a codec writes. New bytes are undefined
/// until written. Addresses change when it grows.
class Bytes {
 public:
  explicit Bytes(Device device = kCpu) : device_(device) {}

  std::byte* data() const { return storage_ ? storage_->data() : nullptr; }
  std::size_t size() const { return size_; }
  Device device() const { return device_; }
  Slice<std::byte> slice() const { return {data(), size_, device_}; }

  void clear() { size_ = 0; }
  void reserve(std::size_t bytes) {
    if (bytes <= capacity_) return;
    auto larger = std::make_unique<Storage>(bytes, device_);
    if (size_ > 0) copy_bytes(larger->data(), device_, data(), device_, size_);
    storage_ = std::move(larger);
    capacity_ = bytes;
  }
  void resize(std::size_t bytes) {
    if (bytes > capacity_) reserve(bytes > 2 * capacity_ ? bytes : 2 * capacity_);
    size_ = bytes;
  }
  /// `bytes` more at the end, undefined so far.
  Slice<std::byte> append(std::size_t bytes) {
    resize(size_ + bytes);
    return slice().sub(size_ - bytes, bytes);
  }

 private:
  std::unique_ptr<Storage> storage_;
  std::size_t size_ = 0, capacity_ = 0;
  Device device_;
};

}  // namespace laconic::compress
