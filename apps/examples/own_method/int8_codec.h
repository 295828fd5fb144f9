#pragma once
#include <laconic/compress/codecs.h>
#include <laconic/core/host_copy.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace own {
using namespace laconic;

/// A byte a value: sign and magnitude in 127ths of the largest magnitude, rounded to nearest.
///     payload   largest magnitude : f32 | values : i8
/// A value that is no number, or infinite, makes all values of the message no number.
class Int8Codec final : public compress::SizedCodec {
 public:
  static compress::CodecKind kind() {
    return compress::plain_codec("int8", {}, [] { return std::make_unique<Int8Codec>(); });
  }
  Int8Codec() : SizedCodec("int8", "are no", "values of 8 bits") {}
  std::size_t max_bytes(std::size_t n) const override { return n == 0 ? 0 : 4 + n; }

 private:
  void write(Slice<const float> on_device, const compress::Key&, std::byte* to) const override {
    const HostCopy<float> x(on_device);  // on the CPU the values themselves
    float largest = 0;
    for (const float v : x) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : std::nanf("");
    write_on_host(Slice<std::byte>(to, max_bytes(x.size()), on_device.device()), [&](std::byte* out) {
      std::memcpy(out, &largest, 4);
      for (std::size_t i = 0; i < x.size(); ++i)
        out[4 + i] =
            static_cast<std::byte>(largest > 0 ? static_cast<int>(std::lround(127 * (x.data()[i] / largest))) : 0);
    });
  }

  void read(Slice<const std::byte> on_device, Slice<float> x) const override {
    const HostCopy<std::byte> payload(on_device);
    float largest = 0;
    std::memcpy(&largest, payload.data(), 4);
    write_on_host(x, [&](float* out) {
      for (std::size_t i = 0; i < x.size(); ++i)
        out[i] = largest / 127 * static_cast<float>(static_cast<signed char>(payload.data()[4 + i]));
    });
  }
};

}  // namespace own
