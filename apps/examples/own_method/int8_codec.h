#pragma once
#include <laconic/compress/codecs.h>
#include <laconic/core/host_copy.h>
#include <laconic/core/stream.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace own {
using namespace laconic;

/// A byte a value: sign and magnitude in 127ths of the largest magnitude, rounded to nearest.
///     payload   largest magnitude : f32 | values : i8
/// A value that is no number, or infinite, makes all values of the message no number.
class Int8Codec final : public compress::Codec {
 public:
  static compress::CodecKind kind() {
    return compress::plain_codec("int8", {}, [] { return std::make_unique<Int8Codec>(); });
  }
  std::size_t max_bytes(std::size_t n) const override { return n == 0 ? 0 : 4 + n; }
  double expected_bytes(std::size_t n) const override { return static_cast<double>(max_bytes(n)); }

  void encode(Slice<const float> on_device, const compress::Key&, compress::Bytes& payload) const override {
    const HostCopy<float> x(on_device);  // on the CPU the values themselves
    std::vector<std::byte> out(max_bytes(x.size()));
    float largest = 0;
    for (const float v : x) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : std::nanf("");
    if (!out.empty()) std::memcpy(out.data(), &largest, 4);
    for (std::size_t i = 0; i < x.size(); ++i)
      out[4 + i] = static_cast<std::byte>(largest > 0 ? static_cast<int>(std::lround(127 * (x.data()[i] / largest))) : 0);
    copy_bytes(payload.append(out.size()).data(), payload.device(), out.data(), kCpu, out.size());
  }

  void decode(Slice<const std::byte> on_device, Slice<float> x) const override {
    require<DataError>(on_device.size() == max_bytes(x.size()), "int8: ", on_device.size(),
                       " bytes are no payload of ", x.size(), " values.");
    const HostCopy<std::byte> payload(on_device);
    std::vector<float> out(x.size());
    float largest = 0;
    if (!out.empty()) std::memcpy(&largest, payload.data(), 4);
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = largest / 127 * static_cast<float>(static_cast<signed char>(payload.data()[4 + i]));
    copy_bytes(x.data(), x.device(), out.data(), kCpu, 4 * out.size());
  }
};

}  // namespace own
