#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compress/codecs.h"
#include "compress/cpu/groups.h"
#include "compress/cpu/unpack.h"
#include "compress/cuda/codecs.h"
#include "compress/codecs/draws.h"
#include "compress/ordered_sum.h"
#include "compress/codecs/value_bits.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

using cpu::kBlock;
static_assert(kBlock == Draws::kBlock);

constexpr float kLeastScale = 0x1p-100f;

float standard_deviation(const float* x, std::size_t n) {
  const auto [sum, squares] = ordered_sums<2>(n, [=](std::size_t i, std::size_t lane, auto& sums) {
    const auto v = static_cast<double>(x[i]);
    sums[0][lane] += v, sums[1][lane] += v * v;
  });
  const double mean = sum / static_cast<double>(n);
  return static_cast<float>(std::sqrt(std::max(0.0, squares / static_cast<double>(n) - mean * mean)));
}

/// numbers: in, uniform over 32 bits; out, sign and level.
LACONIC_MULTIVERSION void round_at_random(const float* LACONIC_RESTRICT x, std::size_t n, float levels_per_one,
                                          std::int32_t levels, unsigned bits, std::uint32_t* LACONIC_RESTRICT numbers) {
  for (std::size_t i = 0; i < n; ++i) numbers[i] = level_of(x[i], levels_per_one, levels, bits, numbers[i]);
}

LACONIC_MULTIVERSION void values_of(const std::uint32_t* LACONIC_RESTRICT numbers, std::size_t n, float step,
                                    unsigned bits, float* LACONIC_RESTRICT x) {
  for (std::size_t i = 0; i < n; ++i) x[i] = value_of_level(numbers[i], step, bits);
}

/// Rounds at random to one of few levels, so that the expectation is the value itself (TernGrad: but for clipping).
/// Every bucket of values has a scale s, its largest magnitude; a value is sign and level of `bits` bits, level l with
/// L = 2^(bits-1) - 1 worth l s / L, one of the two beside the value with the probability that makes them right.
///
///     payload   for each bucket   scale : f32 | values, lowest bits first, each 128 filled up to a byte
///
/// A bucket with NaN or infinity decodes to NaN; one below 2^-100 to 0. Where all values are one bucket, the encoders
/// of the parts of a sum can share its scale: then their sum has few levels too, as TernGrad's scaler sharing has it.
/// cost    two passes and a random number a value
/// source  QSGD, Alistarh et al. 2017, with the scale by the largest magnitude (its section 4); TernGrad, Wen et al.
///         2017: 2 bits, all values one bucket, magnitudes clipped at 2.5 standard deviations (its eq. 10), scaler
///         sharing
class Stochastic final : public SizedCodec {
 public:
  /// bucket : values of one scale, 0: all.   clip : of magnitudes, in standard deviations; 0: none
  Stochastic(const char* name, unsigned bits, std::size_t bucket, float clip)
      : SizedCodec(name, "are no", concat("values of ", bits, " bits")), bits_(bits), bucket_(bucket), clip_(clip) {}

  std::size_t max_bytes(std::size_t elements) const override {
    if (elements == 0) return 0;
    const std::size_t bucket = bucket_of(elements), rest = elements % bucket;
    return elements / bucket * (sizeof(float) + cpu::packed_bytes(bucket, bits_)) +
           (rest ? sizeof(float) + cpu::packed_bytes(rest, bits_) : 0);
  }
  bool shares_scale() const override { return bucket_ == 0; }
  float scale_of(Slice<const float> x) const override {
    float scale = 0;
    on_device(
        x.device(), [&] { scale = scale_on_host(x.data(), x.size()); },
        [&] { scale = cuda::stochastic_scale(x.data(), x.size(), clip_); });
    return scale;
  }

 private:
  std::size_t bucket_of(std::size_t elements) const { return bucket_ ? bucket_ : elements; }

  float scale_on_host(const float* x, std::size_t n) const {
    float scale = std::bit_cast<float>(cpu::largest_magnitude(x, n));
    if (!std::isfinite(scale)) return std::numeric_limits<float>::quiet_NaN();
    if (clip_ > 0)
      if (const float most = clip_ * standard_deviation(x, n); most > 0) scale = std::min(scale, most);
    return scale < kLeastScale ? 0 : scale;
  }

  void write(Slice<const float> x, const Key& key, std::byte* begin) const override {
    const std::size_t bucket = bucket_of(x.size());
    const Draws draws(key);
    const auto on_host = [&] {
      std::byte* to = begin;
      const auto levels = static_cast<std::int32_t>((1u << (bits_ - 1)) - 1);
      std::uint32_t numbers[kBlock], block = 0;
      for (std::size_t b = 0; b < x.size(); b += bucket) {
        const std::size_t end = std::min(x.size(), b + bucket);
        const float scale = key.scale != 0 ? key.scale : scale_on_host(x.data() + b, end - b);
        std::memcpy(to, &scale, sizeof scale);
        to += sizeof scale;
        for (std::size_t i = b; i < end; i += kBlock, ++block) {
          const std::size_t count = std::min(kBlock, end - i);
          if (scale > 0) {
            draws.draw(block, numbers);
            round_at_random(x.data() + i, count, static_cast<float>(levels) / scale, levels, bits_, numbers);
          } else {
            std::fill(numbers, numbers + count, 0u);
          }
          to = cpu::pack(numbers, count, bits_, to);
        }
      }
    };
    on_device(x.device(), on_host,
              [&] { cuda::to_stochastic(x.data(), x.size(), bucket, bits_, clip_, key.scale, draws, begin); });
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    const std::size_t bucket = bucket_of(x.size());
    const auto on_host = [&] {
      const auto levels = static_cast<float>((1u << (bits_ - 1)) - 1);
      const std::byte* from = payload.data();
      std::uint32_t numbers[kBlock];
      for (std::size_t b = 0; b < x.size(); b += bucket) {
        const std::size_t end = std::min(x.size(), b + bucket);
        float scale;
        std::memcpy(&scale, from, sizeof scale);
        from += sizeof scale;
        for (std::size_t i = b; i < end; i += kBlock) {
          const std::size_t count = std::min(kBlock, end - i);
          cpu::unpack(from, payload.end(), bits_, count, numbers);
          values_of(numbers, count, scale / levels, bits_, x.data() + i);
          from += (count * bits_ + 7) / 8;
        }
      }
    };
    on_device(x.device(), on_host, [&] { cuda::from_stochastic(payload.data(), x.size(), bucket, bits_, x.data()); });
  }

  unsigned bits_;
  std::size_t bucket_;
  float clip_;
};

}  // namespace

CodecKind qsgd_codec() {
  return {"qsgd",
          "qsgd:BITS:BUCKET",
          "qsgd:8:512",
          "give bits and values per bucket",
          {},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto both = codec_numbers(numbers);
            if (!both || both->second < 1) return nullptr;
            const auto [bits, bucket] = *both;
            require<UsageError>(bits >= 2 && bits <= 16, "qsgd cannot use ", bits,
                                " bits: give 2 to 16, as qsgd:8:512");
            require<UsageError>(bucket <= 1 << 30,
                                "a bucket of qsgd has 1 to 2^30 values: choose another, as qsgd:8:512");
            return std::make_unique<Stochastic>("qsgd", static_cast<unsigned>(bits), static_cast<std::size_t>(bucket),
                                                0.0f);
          }};
}

CodecKind terngrad_codec() {
  return plain_codec("terngrad", {.bears_weights = false},
                     [] { return std::make_unique<Stochastic>("terngrad", 2u, std::size_t{0}, 2.5f); });
}

}  // namespace laconic::compress
