#include "compress/codecs/signs.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/ordered_sum.h"
#include "core/cpu/simd.h"

namespace laconic::compress {

LACONIC_MULTIVERSION void write_signs(const float* LACONIC_RESTRICT x, std::size_t n,
                                      std::byte* LACONIC_RESTRICT bits) {
  for (std::size_t i = 0; i < n; i += 8) {
    unsigned byte = 0;
    for (std::size_t j = 0; j < std::min<std::size_t>(8, n - i); ++j) byte |= (x[i + j] < 0 ? 1u : 0u) << j;
    bits[i / 8] = static_cast<std::byte>(byte);
  }
}

LACONIC_MULTIVERSION void read_signs(const std::byte* LACONIC_RESTRICT bits, std::size_t n, float above, float below,
                                     float* LACONIC_RESTRICT x) {
  for (std::size_t i = 0; i < n; i += 8) {
    const auto byte = static_cast<unsigned>(bits[i / 8]);
    for (std::size_t j = 0; j < std::min<std::size_t>(8, n - i); ++j) x[i + j] = byte >> j & 1 ? below : above;
  }
}

LACONIC_MULTIVERSION void add_signs(const std::byte* LACONIC_RESTRICT bits, std::size_t n, float value,
                                    float* LACONIC_RESTRICT x) {
  for (std::size_t i = 0; i < n; i += 8) {
    const auto byte = static_cast<unsigned>(bits[i / 8]);
    for (std::size_t j = 0; j < std::min<std::size_t>(8, n - i); ++j) x[i + j] += byte >> j & 1 ? -value : value;
  }
}

float mean_magnitude(Slice<const float> x) {
  const double sum = ordered_sums<1>(x.size(), [=](std::size_t i, std::size_t lane, auto& sums) {
    sums[0][lane] += std::abs(static_cast<double>(x[i]));
  })[0];
  return x.empty() ? 0 : static_cast<float>(sum / static_cast<double>(x.size()));
}

void ScaledSigns::add(std::size_t first, std::size_t count) {
  stretches_.push_back({first, count});
  bytes_ += sizeof(float) + bytes_of_signs(count);
}

void ScaledSigns::extract(float* x, std::byte* message) const {
  for (const auto& [first, count] : stretches_) {
    const float scale = mean_magnitude({x + first, count});
    std::byte* const bits = message + sizeof scale;
    std::memcpy(message, &scale, sizeof scale);
    write_signs(x + first, count, bits);
    add_signs(bits, count, -scale, x + first);
    message = bits + bytes_of_signs(count);
  }
}

void ScaledSigns::add_to(const std::byte* message, float factor, float* x) const {
  for (const auto& [first, count] : stretches_) {
    float scale;
    std::memcpy(&scale, message, sizeof scale);
    add_signs(message + sizeof scale, count, factor * scale, x + first);
    message += sizeof scale + bytes_of_signs(count);
  }
}

void ScaledSigns::read(const std::byte* message, float* x) const {
  for (const auto& [first, count] : stretches_) {
    float scale;
    std::memcpy(&scale, message, sizeof scale);
    read_signs(message + sizeof scale, count, scale, -scale, x + first);
    message += sizeof scale + bytes_of_signs(count);
  }
}

}  // namespace laconic::compress
