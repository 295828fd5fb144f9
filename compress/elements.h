#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "compress/bytes.h"

namespace laconic::compress {

/// Some elements of a tensor, indices and values, in memory that grows and is not initialised.
class Elements {
 public:
  std::uint32_t* indices() const { return indices_.get(); }
  float* values() const { return values_.get(); }
  std::size_t size() const { return size_; }
  void resize(std::size_t size) { size_ = size; }  ///< within what was reserved
  void reserve(std::size_t room) {
    if (room <= room_) return;
    room_ = std::max(room, room_ + room_ / 4);  // it is kept for long, and seldom grows
    const auto grow = [&](auto& memory) {
      auto larger = std::make_unique_for_overwrite<std::remove_reference_t<decltype(memory[0])>[]>(room_);
      std::copy_n(memory.get(), size_, larger.get());
      memory = std::move(larger);
    };
    grow(indices_), grow(values_);
  }
  void append(const std::uint32_t* indices, const float* values, std::size_t count) {
    reserve(size_ + count);
    std::copy_n(indices, count, indices_.get() + size_);
    std::copy_n(values, count, values_.get() + size_);
    size_ += count;
  }
  void append(const Elements& other) { append(other.indices(), other.values(), other.size()); }

 private:
  std::unique_ptr<std::uint32_t[]> indices_;
  std::unique_ptr<float[]> values_;
  std::size_t size_ = 0, room_ = 0;
};

/// Elements on a CUDA device.
class DeviceElements {
 public:
  std::uint32_t* indices() const { return reinterpret_cast<std::uint32_t*>(indices_.data()); }
  float* values() const { return reinterpret_cast<float*>(values_.data()); }
  std::size_t size() const { return size_; }
  Device device() const { return indices_.device(); }
  /// Room for so many; what was there is gone.
  void renew(Device device, std::size_t room) {
    if (indices_.device() != device) indices_ = Bytes(device), values_ = Bytes(device);
    size_ = 0;
    indices_.clear(), values_.clear();
    indices_.resize(room * sizeof(std::uint32_t)), values_.resize(room * sizeof(float));
  }
  void resize(std::size_t size) { size_ = size; }  ///< within the room

 private:
  Bytes indices_, values_;
  std::size_t size_ = 0;
};

}  // namespace laconic::compress
