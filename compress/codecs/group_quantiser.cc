#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "compress/codecs.h"
#include "compress/cpu/groups.h"
#include "compress/cpu/unpack.h"
#include "compress/codecs/draws.h"
#include "core/dispatch.h"
#include "core/host_copy.h"

namespace laconic::compress {
namespace {

using cpu::kSuperGroup;
static_assert(2 * cpu::kSuperGroupDraws == Draws::kBlock && kSuperGroup == 2 * cpu::kBlock);

constexpr float kLeastGroupScale = 0x1p-100f;

/// The random numbers of one super group after the other.
class GroupDraws {
 public:
  explicit GroupDraws(const Key& key) : draws_(key) {}
  const std::uint32_t* next() {
    if (next_ % 2 == 0) draws_.draw(next_ / 2, numbers_);
    return numbers_ + next_++ % 2 * cpu::kSuperGroupDraws;
  }

 private:
  Draws draws_;
  std::uint32_t next_ = 0, numbers_[Draws::kBlock];
};

/// The next bf16 from a magnitude upwards, as its bits; NaN for what is not finite, 0 for what is below 2^-100.
std::uint16_t bf16_above(std::uint32_t magnitude) {
  if (magnitude >= 0x7F800000u) return 0x7FC0;
  if (std::bit_cast<float>(magnitude) < kLeastGroupScale) return 0;
  return static_cast<std::uint16_t>(std::min((magnitude + 0xFFFF) >> 16, 0x7F7Fu));
}

/// Rounds at random to one of few levels, so that the expectation is the value itself. Each group of values has a scale
/// of its own, in 255ths of the scale of 256 values, its super group. Levels are closer where most values are: with b
/// bits and h = 2^(b-2), level l is worth max(l, 2 l - h) steps.
///
///     s = largest |x| of a super group, as bf16, rounded up
///     c = ceil(255 largest |x| of a group / s)
///     a = |x| (2 L - h) / (s c / 255),   level = floor(min(a, (a + h) / 2) + r)          L = 2^(b-1) - 1, 0 < r < 1
///
///     payload   for each super group   s : bf16 | c : u8 of each group | signs and levels, b bits each
///               256 of them lie in 8 lanes of words (cpu/groups.h); fewer, in the last one, lowest bits first, each
///               128 filled up to a byte
///
/// A partial sum is scaled and rounded anew on every hop. decode_add_encode does that in one pass over memory. A super
/// group with NaN or infinity decodes to NaN; one below 2^-100 to 0.
///   cost    a quarter of a random number a value; b + 8/GROUP + 1/16 bits a value. A GPU's values are encoded on the
///           host
///   source  DynamiQ (Han et al. 2026): groups in super groups with scales of two kinds, levels that are not uniform,
///           one fused kernel for a hop. Settled: levels of two spacings; no bits that vary between super groups, and
///           no rounding that is correlated between ranks
class GroupQuantiser final : public SizedCodec {
 public:
  GroupQuantiser(unsigned bits, std::size_t group)
      : SizedCodec("groupq", "are no", concat("values of ", bits, " bits in groups of ", group)),
        levels_(bits),
        group_(group) {}

  std::size_t max_bytes(std::size_t elements) const override {
    const std::size_t rest = elements % kSuperGroup;
    return elements / kSuperGroup * bytes_of(kSuperGroup) + (rest > 0 ? bytes_of(rest) : 0);
  }

  void decode_add(Slice<const std::byte> payload, Slice<float> x) const override {
    if (!on_host(payload, x)) return Codec::decode_add(payload, x);
    HostAccess access(x.device());
    each_super_group(payload.data(), x.size(), [&](std::size_t at, std::size_t n, const float* values) {
      cpu::add_super_group(values, n, x.data() + at);
    });
  }

  void decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const override {
    if (!on_host(payload, x)) return Codec::decode_add_encode(payload, x, key, sum);
    HostAccess access(x.device());
    GroupDraws draws(key);
    std::byte* to = sum.append(max_bytes(x.size())).data();
    each_super_group(payload.data(), x.size(), [&](std::size_t at, std::size_t n, float* values) {
      cpu::add_super_group(x.data() + at, n, values);
      to = put(values, n, draws.next(), to);
    });
  }

 private:
  std::size_t groups_in(std::size_t n) const { return (n + group_ - 1) / group_; }
  /// The bytes of a super group of n values.
  std::size_t bytes_of(std::size_t n) const {
    return sizeof(std::uint16_t) + groups_in(n) + cpu::packed_bytes(n, levels_.bits);
  }
  /// Whether both can be followed by host code, and the payload is one.
  bool on_host(Slice<const std::byte> payload, Slice<float> x) const {
    return x.device().kind != Device::Kind::cuda && payload.device().kind != Device::Kind::cuda &&
           x.device() != kGhost && payload.size() == max_bytes(x.size());
  }

  std::byte* put(const float* x, std::size_t n, const std::uint32_t* random, std::byte* to) const {
    std::uint32_t numbers[kSuperGroup];
    std::uint8_t scales[kSuperGroup / cpu::kGroupLanes] = {};
    const std::uint16_t scale = bf16_above(cpu::largest_magnitude(x, n));
    const float s = std::bit_cast<float>(std::uint32_t{scale} << 16);
    if (s > 0)
      cpu::quantise_super_group(x, n, group_, levels_, s, random, scales, numbers);
    else
      std::fill_n(numbers, kSuperGroup, 0u);
    std::memcpy(to, &scale, sizeof scale);
    std::memcpy(to + sizeof scale, scales, groups_in(n));
    to += sizeof scale + groups_in(n);
    if (n < kSuperGroup) {
      for (std::size_t i = 0; i < n; i += cpu::kBlock)
        to = cpu::pack(numbers + i, std::min(cpu::kBlock, n - i), levels_.bits, to);
      return to;
    }
    cpu::pack_lanes(numbers, levels_.bits, to);
    return to + cpu::packed_bytes(n, levels_.bits);
  }

  /// use(first value, count, values) for each super group of a payload of n values, which is on the host.
  template <class Use>
  void each_super_group(const std::byte* from, std::size_t n, Use&& use) const {
    for (std::size_t at = 0; at < n; at += kSuperGroup) {
      const std::size_t count = std::min(kSuperGroup, n - at);
      std::uint16_t scale;
      std::memcpy(&scale, from, sizeof scale);
      const auto* const scales = reinterpret_cast<const std::uint8_t*>(from + sizeof scale);
      const std::byte *packed = from + sizeof scale + groups_in(count), *const end = from + bytes_of(count);
      std::uint32_t numbers[kSuperGroup];
      float values[kSuperGroup];
      if (count == kSuperGroup)
        cpu::unpack_lanes(packed, levels_.bits, numbers);
      else
        for (std::size_t i = 0; i < count; i += cpu::kBlock) {
          const std::size_t here = std::min(cpu::kBlock, count - i);
          cpu::unpack(packed, end, levels_.bits, here, numbers + i);
          packed += cpu::packed_bytes(here, levels_.bits);
        }
      cpu::dequantise_super_group(numbers, count, group_, levels_, std::bit_cast<float>(std::uint32_t{scale} << 16),
                                  scales, values);
      use(at, count, values);
      from = end;
    }
  }

  void write(Slice<const float> x, const Key& key, std::byte* begin) const override {
    const HostCopy<float> here(x);
    write_on_host(Slice<std::byte>(begin, max_bytes(x.size()), x.device()), [&](std::byte* to) {
      GroupDraws draws(key);
      for (std::size_t at = 0; at < x.size(); at += kSuperGroup)
        to = put(here.data() + at, std::min(kSuperGroup, x.size() - at), draws.next(), to);
    });
  }

  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    const HostCopy<std::byte> here(payload);
    write_on_host(x, [&](float* to) {
      each_super_group(here.data(), x.size(),
                       [&](std::size_t at, std::size_t n, const float* values) { std::copy_n(values, n, to + at); });
    });
  }

  const cpu::GroupLevels levels_;
  const std::size_t group_;
};

}  // namespace

CodecKind groupq_codec() {
  return {"groupq",
          "groupq:BITS:GROUP",
          "groupq:5:32",
          "give bits and values per group",
          {.bears_weights = false},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto both = codec_numbers(numbers);
            if (!both) return nullptr;
            const auto [bits, group] = *both;
            require<UsageError>(bits >= 2 && bits <= 8, "groupq cannot use ", bits,
                                " bits: give 2 to 8, as groupq:5:32");
            require<UsageError>(
                group >= 8 && group <= 256 && std::has_single_bit(static_cast<unsigned>(group)),
                "a group of groupq has 8, 16, 32, 64, 128 or 256 values: choose another, as groupq:5:32");
            return std::make_unique<GroupQuantiser>(static_cast<unsigned>(bits), static_cast<std::size_t>(group));
          }};
}

}  // namespace laconic::compress
