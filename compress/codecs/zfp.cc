#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "compress/codecs.h"
#include "core/host_copy.h"
#include "core/base/parse.h"
#include "core/stream.h"
#ifdef LACONIC_ZFP
#include <zfp.h>
#endif

namespace laconic::compress {
namespace {

#ifdef LACONIC_ZFP
constexpr bool kHaveZfp = true;

/// zfp's fixed-accuracy mode over a number of floats.
class ZfpStream {
 public:
  /// values : written by decompress() alone
  ZfpStream(const float* values, std::size_t elements, double tolerance)
      : field_(zfp_field_1d(const_cast<float*>(values), zfp_type_float, elements), zfp_field_free),
        stream_(zfp_stream_open(nullptr), zfp_stream_close) {
    zfp_stream_set_accuracy(stream_.get(), tolerance);
    room_ = zfp_stream_maximum_size(stream_.get(), field_.get());
  }
  std::size_t room() const { return room_; }
  /// Both return how many bytes of `words` they wrote or read. No message is read beyond room() and a word.
  std::size_t compress(std::vector<std::uint64_t>& words) { return run(words, zfp_compress); }
  std::size_t decompress(std::vector<std::uint64_t>& words) { return run(words, zfp_decompress); }
  std::size_t words() const { return room_ / sizeof(std::uint64_t) + 2; }

 private:
  template <class Act>
  std::size_t run(std::vector<std::uint64_t>& words, Act act) {
    const std::unique_ptr<bitstream, void (*)(bitstream*)> bits(
        stream_open(words.data(), words.size() * sizeof(std::uint64_t)), stream_close);
    zfp_stream_set_bit_stream(stream_.get(), bits.get());
    zfp_stream_rewind(stream_.get());
    return act(stream_.get(), field_.get());
  }

  std::unique_ptr<zfp_field, void (*)(zfp_field*)> field_;
  std::unique_ptr<zfp_stream, void (*)(zfp_stream*)> stream_;
  std::size_t room_;
};
#else
constexpr bool kHaveZfp = false;

/// Stands in for it: no Zfp is made, so nothing calls it.
struct ZfpStream {
  ZfpStream(const float*, std::size_t, double) {}
  std::size_t room() const { return 0; }
  std::size_t words() const { return 0; }
  std::size_t compress(std::vector<std::uint64_t>&) { return 0; }
  std::size_t decompress(std::vector<std::uint64_t>&) { return 0; }
};
#endif

/// A general compressor of floats with an error bound, for contrast: INCEPTIONN compares itself with one (SZ).
///
///     payload   0 : u8 | zfp's bit stream in words of 64 bits
///               1 : u8 | the floats as they are, where one of them is not finite: zfp knows no such values
///
/// The tolerance is zfp's own, and no bound of the error. At a tolerance of 1 {0, -0.48, -0.42, -0.49} is off by up to
/// 1.42 (zfp 1.0.0; 1.4375 is the most that was seen). Each four values share an exponent, so that a small one loses
/// more beside a large one: at 1e-9 the 2e-8 of {1, 1e-8, 2e-8, -3e-8} becomes 1.68e-8. Values on a CUDA device pass
/// through host memory, and the host waits for them. Meson looks for the library when a build is configured.
/// source   Lindstrom 2014, "Fixed-rate compressed floating-point arrays"; the library is LLNL's
/// instead  inceptionn:2^E: zfp looks for what neighbours have in common, and neighbouring gradients have nothing
class Zfp final : public Codec {
 public:
  /// throws UsageError if this build has no zfp
  explicit Zfp(double tolerance) : tolerance_(tolerance) {
    require<UsageError>(kHaveZfp,
                        "this build has no zfp (`codec`): install libzfp-dev, then configure and build again");
  }

  std::size_t max_bytes(std::size_t elements) const override {
    if (elements == 0) return 0;
    return 1 + std::max(ZfpStream(nullptr, elements, tolerance_).room(), elements * sizeof(float));
  }
  /// Assumes a byte a value.
  double expected_bytes(std::size_t elements) const override { return static_cast<double>(elements); }

  void encode(Slice<const float> x, const Key&, Bytes& payload) const override {
    if (x.empty()) return;
    const HostCopy<float> here(x);
    const bool finite = std::all_of(here.begin(), here.end(), [](float v) { return std::isfinite(v); });
    std::vector<std::uint64_t> words;
    std::size_t bytes = here.size_bytes();
    if (finite) {
      ZfpStream stream(here.data(), here.size(), tolerance_);
      words.resize(stream.words());
      bytes = stream.compress(words);
    }
    const std::byte kind{finite ? kStream : kPlain};
    const Slice<std::byte> to = payload.append(1 + bytes);
    copy_bytes(to.data(), x.device(), &kind, kCpu, 1);
    copy_bytes(to.data() + 1, x.device(), finite ? static_cast<const void*>(words.data()) : here.data(), kCpu, bytes);
  }

  void decode(Slice<const std::byte> payload, Slice<float> x) const override {
    const HostCopy<std::byte> here(payload);
    std::vector<float> values(x.size());
    require<DataError>(x.empty() ? payload.empty() : decoded(here.slice(), values), "zfp codec: ", payload.size(),
                       " bytes are no ", x.size(), " values. Do all ranks use the same codec?");
    copy_bytes(x.data(), x.device(), values.data(), kCpu, x.size_bytes());
  }

 private:
  static constexpr std::uint8_t kStream = 0, kPlain = 1;

  bool decoded(Slice<const std::byte> payload, std::vector<float>& x) const {
    if (payload.size() < 2 || payload.size() > max_bytes(x.size())) return false;
    const std::size_t bytes = payload.size() - 1;
    if (payload.data()[0] == std::byte{kPlain}) {
      if (bytes != x.size() * sizeof(float)) return false;
      std::memcpy(x.data(), payload.data() + 1, bytes);
      return true;
    }
    ZfpStream stream(x.data(), x.size(), tolerance_);
    std::vector<std::uint64_t> words(stream.words());  // zeros behind what came
    std::memcpy(words.data(), payload.data() + 1, bytes);
    return payload.data()[0] == std::byte{kStream} && stream.decompress(words) == bytes;
  }

  double tolerance_;
};

}  // namespace

CodecKind zfp_codec() {
  return {"zfp",
          "zfp:TOLERANCE",
          "zfp:0.001",
          "give zfp's tolerance, about the largest error",
          {.bears_weights = false},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto tolerance = number_from<double>(std::string(numbers));
            return tolerance && *tolerance > 0 ? std::make_unique<Zfp>(*tolerance) : nullptr;
          }};
}

}  // namespace laconic::compress
