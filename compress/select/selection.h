#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "compress/bytes.h"
#include "core/base/error.h"
#include "core/slice.h"

namespace laconic::compress {

/// The values to choose from hold a NaN.
struct NotANumber : DataError {
  using DataError::DataError;
};

/// Which values compete, and by what: all by |x|, those above 0 by x, or those below 0 by -x. Quantised RGC sends one
/// sign at a time, in turns.
enum class Sign : std::uint8_t { any, positive, negative };

/// A value's key: magnitudes are compared as integers. A float's bits without the sign are in the order of |x|,
/// denormals and infinities included, whatever the processor does with denormals. Values of the wrong sign have keys
/// below 0, NaNs have keys above kInfinityKey.
constexpr std::int32_t key_of(float value, Sign sign) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (sign == Sign::any) return static_cast<std::int32_t>(bits & 0x7FFFFFFFu);
  return static_cast<std::int32_t>(sign == Sign::positive ? bits : bits ^ 0x80000000u);
}
inline constexpr std::int32_t kInfinityKey = 0x7F800000;

/// The smallest key that competes: of one sign, 0 does not.
constexpr std::int32_t lowest_key(Sign sign) { return sign == Sign::any ? 0 : 1; }

/// The magnitude of a key >= 0.
constexpr float magnitude_of(std::int32_t key) { return std::bit_cast<float>(key); }

/// The smallest competing key whose magnitude is at least `floor`, which is no NaN.
constexpr std::int32_t key_from(float floor, Sign sign) {
  const std::int32_t lowest = lowest_key(sign), key = std::bit_cast<std::int32_t>(floor);
  return key < lowest ? lowest : key;  // a floor below 0 has a key below 0
}
/// The smallest competing key whose magnitude is above `threshold`, which is no NaN.
constexpr std::int32_t key_above(float threshold, Sign sign) {
  const std::int32_t key = std::bit_cast<std::int32_t>(threshold);
  if (key == std::bit_cast<std::int32_t>(-0.0f)) return 1;  // -0 is no smaller than 0
  return key < 0 ? lowest_key(sign) : key + 1;
}

/// Some elements of a tensor, indices and values, in host memory that grows and is not initialised.
class Elements {
 public:
  std::uint32_t* indices() const { return indices_.get(); }
  float* values() const { return values_.get(); }
  std::size_t size() const { return size_; }
  void resize(std::size_t size) { size_ = size; }  ///< within what was reserved
  void reserve(std::size_t room) {
    if (room <= room_) return;
    room_ = std::max(room, room_ + room_ / 4);  // the memory is kept for long, and seldom grows
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

/// Some elements of a tensor on a CUDA device.
class DeviceElements {
 public:
  std::uint32_t* indices() const { return reinterpret_cast<std::uint32_t*>(indices_.data()); }
  float* values() const { return reinterpret_cast<float*>(values_.data()); }
  std::size_t size() const { return size_; }
  Device device() const { return indices_.device(); }
  /// Makes room for `room` elements. What was there is gone.
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

/// A communication-set: the elements of one tensor that a selector has chosen. Its memory is kept from one selection to
/// the next. Of a tensor on a CUDA device the elements lie there, and the vectors are empty; all_indices() and
/// all_values() are those of either.
struct Selection {
  std::vector<std::uint32_t> indices;  ///< ascending
  std::vector<float> values;           ///< the tensor's values at the indices
  DeviceElements on_device;
  /// The smallest magnitude that was let in: by a rule "above a threshold" that threshold, else the smallest chosen.
  float threshold = 0;
  /// Readings of the whole tensor. What the residual pass has handed over is not counted.
  int passes = 0;

  std::size_t size() const { return indices.size() + on_device.size(); }
  Slice<const std::uint32_t> all_indices() const {
    if (on_device.size() > 0) return {on_device.indices(), on_device.size(), on_device.device()};
    return slice(indices);
  }
  Slice<const float> all_values() const {
    if (on_device.size() > 0) return {on_device.values(), on_device.size(), on_device.device()};
    return slice(values);
  }
  Slice<float> all_values() {
    if (on_device.size() > 0) return {on_device.values(), on_device.size(), on_device.device()};
    return slice(values);
  }
  /// Keeps the first `count` elements alone.
  void shorten(std::size_t count) {
    if (count >= size()) return;
    if (on_device.size() > 0) return on_device.resize(count);
    indices.resize(count), values.resize(count);
  }
  void clear() {
    indices.clear(), values.clear();
    on_device.resize(0);
    threshold = 0, passes = 0;
  }
};

}  // namespace laconic::compress
