#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "core/device.h"
#include "core/base/error.h"

namespace laconic {

/// A span that knows its device: `size` elements of T from `data`, not owned. Host code may only follow `data` when
/// device() is the CPU.
template <class T>
class Slice {
 public:
  Slice() = default;
  Slice(T* data, std::size_t size, Device device = kCpu) : data_(data), size_(size), device_(device) {}
  /// Slice<float> passes as Slice<const float>.
  template <class U>
    requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
  Slice(const Slice<U>& other) : data_(other.data()), size_(other.size()), device_(other.device()) {}

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t size_bytes() const { return size_ * sizeof(T); }
  bool empty() const { return size_ == 0; }
  Device device() const { return device_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }

  /// Elements [from, from + count). Throws ShapeError if they are not all inside.
  Slice sub(std::size_t from, std::size_t count) const {
    require<ShapeError>(from <= size_ && count <= size_ - from, "slice of ", size_, " elements has no part [", from,
                        ", ", from, " + ", count, ")");
    return {data_ + from, count, device_};
  }
  Slice first(std::size_t count) const { return sub(0, count); }

  /// The i-th of n nearly equal parts; the first size() % n parts are one element longer. 0 <= i < n
  Slice part(std::size_t i, std::size_t n) const {
    const std::size_t base = size_ / n, longer = size_ % n;
    return sub(i * base + std::min(i, longer), base + (i < longer ? 1 : 0));
  }

  auto bytes() const {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return Slice<Byte>(reinterpret_cast<Byte*>(data_), size_bytes(), device_);
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_{};
};

/// The values of type T that these bytes hold, in place. Throws ShapeError if the address is not aligned for a T, or if
/// the last T is cut off.
template <class T>
Slice<const T> values_in(Slice<const std::byte> bytes) {
  require<ShapeError>(reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) == 0 && bytes.size() % sizeof(T) == 0,
                      bytes.size(), " bytes are no row of values of ", sizeof(T),
                      " bytes, or begin between two of them");
  return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T), bytes.device()};
}

template <class T>
Slice<T> slice(std::vector<T>& v) {
  return {v.data(), v.size()};
}
template <class T>
Slice<const T> slice(const std::vector<T>& v) {
  return {v.data(), v.size()};
}

}  // namespace laconic
