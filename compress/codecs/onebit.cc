#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "compress/codecs.h"
#include "compress/cuda/codecs.h"
#include "compress/codecs/signs.h"
#include "compress/codecs/value_bits.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"
#include "core/host_copy.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kLanes = 16;  // sums beside each other: the same on every instruction set

/// means : of values that are not below zero, and of those that are
LACONIC_MULTIVERSION void means_of(const float* LACONIC_RESTRICT x, std::size_t n, float* LACONIC_RESTRICT means) {
  float above[kLanes] = {}, below[kLanes] = {};
  std::uint32_t count[kLanes] = {};  // values below zero
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
  means[0] = one_nan(are_below < n ? static_cast<float>(sum_above / static_cast<double>(n - are_below)) : 0.0f);
  means[1] = are_below > 0 ? static_cast<float>(sum_below / static_cast<double>(are_below)) : 0.0f;
}

/// One bit a value, and what the bits stand for in each bucket. What is lost has to be added to what is encoded next
/// (error feedback, which the codec's user keeps: CodecTraits::remembers).
///
///     payload   for each bucket   what the bits stand for : f32, or 2 of them |
///                                 a bit a value, lowest first, 1: below 0; filled up to a byte
///
///     onebit           two means: of the values that are not below 0, and of those that are. So a bucket of 512 keeps
///                      its sum, and little else. With feedback it is 1-bit SGD
///     signs:BUCKET     one mean m, of all magnitudes, so that a value becomes m or -m. With feedback it is EF-signSGD
///
/// What is no number makes the mean that it counts for none.
/// cost    onebit: 9/8 bits a value; signs: 1 + 32/BUCKET, and a GPU's values are encoded on the host
/// source  1-bit SGD, Seide et al. 2014, sections 3.1 and 3.2 (threshold 0, means that keep the sum; settled: its means
///         are of columns of a weight matrix, these of 512 neighbours, since a message knows no shapes)
///         EF-signSGD, Karimireddy et al. 2019, Algorithm 1; buckets: Zheng, Huang, Kwok 2019 (settled: buckets are of
///         neighbours, for the same reason; 0 becomes m, which loses as much of a bucket's squares as -m would)
class OneBit final : public SizedCodec {
 public:
  OneBit(const std::string& name, std::size_t bucket, bool one_mean)
      : SizedCodec(name, "are no", "values of one bit"), bucket_(bucket), means_(one_mean ? 1 : 2) {}
  std::size_t max_bytes(std::size_t elements) const override {
    return elements / bucket_ * bytes_of(bucket_) + (elements % bucket_ > 0 ? bytes_of(elements % bucket_) : 0);
  }

 private:
  std::size_t bytes_of(std::size_t bucket) const { return means_ * sizeof(float) + (bucket + 7) / 8; }

  void write(Slice<const float> x, const Key&, std::byte* begin) const override {
    if (means_ == 2)
      return on_device(
          x.device(), [&] { pack(x, begin); }, [&] { cuda::to_onebit(x.data(), x.size(), bucket_, begin); });
    const HostCopy<float> here(x);
    write_on_host(Slice<std::byte>(begin, max_bytes(x.size()), x.device()),
                  [&](std::byte* to) { pack(here.slice(), to); });
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    if (means_ == 2)
      return on_device(
          x.device(), [&] { unpack(payload.data(), x.data(), x.size()); },
          [&] { cuda::from_onebit(payload.data(), x.size(), bucket_, x.data()); });
    const HostCopy<std::byte> here(payload);
    write_on_host(x, [&](float* to) { unpack(here.data(), to, x.size()); });
  }

  void pack(Slice<const float> x, std::byte* to) const {
    for (std::size_t b = 0; b < x.size(); b += bucket_) {
      const std::size_t count = std::min(bucket_, x.size() - b);
      float means[2];
      if (means_ == 2)
        means_of(x.data() + b, count, means);
      else
        means[0] = mean_magnitude(x.sub(b, count));
      std::memcpy(to, means, means_ * sizeof(float));
      write_signs(x.data() + b, count, to + means_ * sizeof(float));
      to += bytes_of(count);
    }
  }
  void unpack(const std::byte* from, float* x, std::size_t n) const {
    for (std::size_t b = 0; b < n; b += bucket_) {
      const std::size_t count = std::min(bucket_, n - b);
      float means[2];
      std::memcpy(means, from, means_ * sizeof(float));
      if (means_ == 1) means[1] = -means[0];
      read_signs(from + means_ * sizeof(float), count, means[0], means[1], x + b);
      from += bytes_of(count);
    }
  }

  const std::size_t bucket_, means_;
};

}  // namespace

CodecKind onebit_codec() {
  return plain_codec("onebit", {.bears_weights = false, .remembers = true},
                     [] { return std::make_unique<OneBit>("onebit", std::size_t{512}, false); });
}

CodecKind signs_codec() {
  return {"signs",
          "signs:BUCKET",
          "signs:512",
          "give values per bucket",
          {.bears_weights = false, .remembers = true},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const std::optional<int> bucket = codec_number(numbers);
            if (!bucket) return nullptr;
            require<UsageError>(*bucket >= 1 && *bucket <= 1 << 30,
                                "a bucket of signs has 1 to 2^30 values: choose another, as signs:512");
            return std::make_unique<OneBit>("signs", static_cast<std::size_t>(*bucket), true);
          }};
}

}  // namespace laconic::compress
