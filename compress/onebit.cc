#include <algorithm>
#include <cstring>

#include "compress/codecs.h"
#include "compress/cuda/codecs.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kLanes = 16;  // sums beside each other: the same on every instruction set

/// means : of values that are not below zero, and of those that are
LACONIC_MULTIVERSION void means_of(const float* LACONIC_RESTRICT x, std::size_t n, float* LACONIC_RESTRICT means) {
  float above[kLanes] = {}, below[kLanes] = {};
  std::uint32_t count[kLanes] = {};  // of those below
  std::size_t i = 0;
  const auto take = [&](std::size_t from, std::size_t lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const float v = x[from + lane];
      above[lane] += v < 0 ? 0.0f : v;
      below[lane] += v < 0 ? v : 0.0f;
      count[lane] += v < 0 ? 1 : 0;
    }
  };
  for (; i + kLanes <= n; i += kLanes) take(i, kLanes);
  take(i, n - i);
  double sum_above = 0, sum_below = 0;
  std::size_t are_below = 0;
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    sum_above += double{above[lane]}, sum_below += double{below[lane]}, are_below += count[lane];
  means[0] = are_below < n ? static_cast<float>(sum_above / static_cast<double>(n - are_below)) : 0.0f;
  means[1] = are_below > 0 ? static_cast<float>(sum_below / static_cast<double>(are_below)) : 0.0f;
}

LACONIC_MULTIVERSION void signs_of(const float* LACONIC_RESTRICT x, std::size_t n, std::byte* LACONIC_RESTRICT to) {
  for (std::size_t i = 0; i < n; i += 8) {
    unsigned bits = 0;
    for (std::size_t j = 0; j < std::min<std::size_t>(8, n - i); ++j) bits |= (x[i + j] < 0 ? 1u : 0u) << j;
    to[i / 8] = static_cast<std::byte>(bits);
  }
}

LACONIC_MULTIVERSION void values_of(const std::byte* LACONIC_RESTRICT from, std::size_t n, const float* means,
                                    float* LACONIC_RESTRICT x) {
  const float above = means[0], below = means[1];
  for (std::size_t i = 0; i < n; i += 8) {
    const auto bits = static_cast<unsigned>(from[i / 8]);
    for (std::size_t j = 0; j < std::min<std::size_t>(8, n - i); ++j) x[i + j] = bits >> j & 1 ? below : above;
  }
}

/// One bit a value, and two values a bucket of 512: the mean of those below zero, and of the others. So a bucket keeps
/// its sum, and little else: what is lost has to be added to what is encoded next (error feedback, which whoever uses
/// it keeps: CodecTraits::remembers). The two together are 1-bit SGD.
///
///     payload   for each bucket   mean of the values that are not below 0 : f32 | of those below : f32 |
///                                 a bit a value, lowest first, 1: below; filled up to a byte
///
/// What is no number makes the mean of its sign none.
/// source  1-bit SGD, Seide et al. 2014, sections 3.1 and 3.2 (threshold 0, means that keep the sum; settled: its means
///         are of columns of a weight matrix, these of 512 neighbours, since a message knows no shapes)
class OneBit final : public SizedCodec {
 public:
  OneBit() : SizedCodec("onebit", "are no", "values of one bit") {}
  std::size_t max_bytes(std::size_t elements) const override {
    return elements / kBucket * bytes_of(kBucket) + (elements % kBucket > 0 ? bytes_of(elements % kBucket) : 0);
  }

 private:
  static constexpr std::size_t kBucket = 512, kMeans = 2 * sizeof(float);
  static std::size_t bytes_of(std::size_t bucket) { return kMeans + (bucket + 7) / 8; }

  void write(Slice<const float> x, const Key&, std::byte* begin) const override {
    const auto on_host = [&] {
      std::byte* to = begin;
      for (std::size_t b = 0; b < x.size(); b += kBucket) {
        const std::size_t count = std::min(kBucket, x.size() - b);
        float means[2];
        means_of(x.data() + b, count, means);
        std::memcpy(to, means, kMeans);
        signs_of(x.data() + b, count, to + kMeans);
        to += bytes_of(count);
      }
    };
    on_device(x.device(), on_host, [&] { cuda::to_onebit(x.data(), x.size(), kBucket, begin); });
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    const auto on_host = [&] {
      const std::byte* from = payload.data();
      for (std::size_t b = 0; b < x.size(); b += kBucket) {
        const std::size_t count = std::min(kBucket, x.size() - b);
        float means[2];
        std::memcpy(means, from, kMeans);
        values_of(from + kMeans, count, means, x.data() + b);
        from += bytes_of(count);
      }
    };
    on_device(x.device(), on_host, [&] { cuda::from_onebit(payload.data(), x.size(), kBucket, x.data()); });
  }
};

}  // namespace

CodecKind onebit_codec() {
  return plain_codec("onebit", {.bears_weights = false, .remembers = true}, [] { return std::make_unique<OneBit>(); });
}

}  // namespace laconic::compress
