#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "compress/select/selection.h"
#include "core/slice.h"

/// Loops of selection over host memory, on one thread. Keys are those of compress/select/selection.h.
namespace laconic::compress::cpu {

/// keys[j] = key_of(values[j]). Returns the largest, INT32_MIN of none.
std::int32_t to_keys(const float* values, std::size_t n, Sign sign, std::int32_t* keys);

/// Calls f(first value, keys, how many, the largest key) for block after block of the values.
template <class F>
void each_block(Slice<const float> values, Sign sign, F&& f) {
  std::int32_t keys[1024];
  for (std::size_t first = 0; first < values.size(); first += std::size(keys)) {
    const std::size_t n = std::min(std::size(keys), values.size() - first);
    const std::int32_t largest = to_keys(values.data() + first, n, sign, keys);
    f(first, keys, n, largest);
  }
}

/// The largest key among the 16 values from `values`.
std::int32_t largest_of_line(const float* values, Sign sign);

std::size_t count_from(const std::int32_t* keys, std::size_t n, std::int32_t from);

/// Writes the elements whose key is above `key`, and the first `equal` of those whose key it is, to out_indices and
/// out_values, which have room for 16 elements more than come out. Returns how many come out.
std::size_t compact(const std::uint32_t* indices, const float* values, const std::int32_t* keys, std::size_t n,
                    std::int32_t key, std::size_t equal, std::uint32_t* out_indices, float* out_values);

/// Writes first + i for each i < n with marks[i] = 1 (the others are 0), ascending, to `to`, which has room for n + 16.
/// Returns how many they are. No branch depends on a mark.
std::size_t marked(const std::uint8_t* marks, std::size_t n, std::uint32_t first, std::uint32_t* to);

}  // namespace laconic::compress::cpu
