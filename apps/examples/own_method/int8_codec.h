#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/codecs.h"

namespace own {
using namespace laconic;

/// A byte a value: sign and magnitude in 127ths of the largest magnitude, rounded to nearest.
///     payload   largest magnitude : f32 | values : i8
/// What is no number, or infinite, makes all of the message not a number.
class Int8Codec final : public compress::Codec {
 public:
  static compress::CodecKind kind() {
    return compress::plain_codec("int8", {}, [] { return std::make_unique<Int8Codec>(); });
  }
  std::size_t max_bytes(std::size_t n) const override { return n == 0 ? 0 : 4 + n; }
  double expected_bytes(std::size_t n) const override { return static_cast<double>(max_bytes(n)); }

  void encode(Slice<const float> x, const compress::Key&, compress::Bytes& payload) const override {
    if (x.empty()) return;
    float largest = 0;
    for (const float v : x) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : std::nanf("");
    std::byte* out = payload.append(4 + x.size()).data();
    std::memcpy(out, &largest, 4);
    for (std::size_t i = 0; i < x.size(); ++i)
      out[4 + i] = static_cast<std::byte>(largest > 0 ? static_cast<int>(std::lround(127 * (x[i] / largest))) : 0);
  }

  void decode(Slice<const std::byte> payload, Slice<float> x) const override {
    require<DataError>(payload.size() == max_bytes(x.size()), "int8: ", payload.size(), " bytes are no payload of ",
                       x.size(), " values.");
    float largest = 0;
    if (!x.empty()) std::memcpy(&largest, payload.data(), 4);
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = largest / 127 * static_cast<float>(static_cast<signed char>(payload.data()[4 + i]));
  }
};

}  // namespace own
