#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "compress/elements.h"
#include "core/slice.h"

namespace laconic::compress {

/// What is to be chosen from holds a NaN.
struct NotANumber : DataError {
  using DataError::DataError;
};

/// Which values compete, and by what: all by |x|; or only those above 0, by x; or only those below 0, by -x (quantised
/// RGC sends one sign at a time, in turns).
enum class Sign : std::uint8_t { any, positive, negative };

/// A communication-set: the elements of one tensor that are chosen to be sent. Memory is kept from one selection to the
/// next. If the tensor is on a CUDA device they lie there too, and the vectors are empty; all_indices() and
/// all_values() are those of either.
struct Selection {
  std::vector<std::uint32_t> indices;  ///< ascending
  std::vector<float> values;           ///< as long as indices: the tensor there
  DeviceElements on_device;
  /// The smallest magnitude that was let in: by a rule "above a threshold" that threshold, else the smallest chosen.
  float threshold = 0;
  /// How often all of the tensor was read; what was handed over from the residual pass is not counted.
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
  /// Only the first `count` of them stay.
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
