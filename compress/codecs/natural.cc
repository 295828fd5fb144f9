#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "compress/codecs.h"
#include "compress/cpu/unpack.h"
#include "compress/cuda/codecs.h"
#include "compress/codecs/draws.h"
#include "compress/codecs/value_bits.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"
#include "core/host_copy.h"

namespace laconic::compress {
namespace {

using cpu::kBlock;
static_assert(kBlock == Draws::kBlock);

constexpr unsigned kNaturalBits = 9, kMantissaBits = 23;

/// numbers: in, uniform over 32 bits; out, sign and exponent.
LACONIC_MULTIVERSION void round_to_powers(const float* LACONIC_RESTRICT x, std::size_t n,
                                          std::uint32_t* LACONIC_RESTRICT numbers) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    numbers[i] = natural_of(bits, numbers[i]);
  }
}

/// Rounds at random to one of the two powers of two beside a value, so that the expectation is the value itself: sign
/// and exponent are left of a float. 0 stays 0, what lies below 2^-126 becomes that or 0. Infinity stays, NaN becomes
/// infinity, of either sign.
///     payload   sign and exponent, 9 bits a value, lowest bits first, each 128 filled up to a byte
/// A sum of such values is encoded in the same way, with an error in proportion: so they travel on every hop.
/// cost    one pass and a random number a value, 9 bits sent for 32; a GPU's values are encoded on the host
/// source  natural compression, Horvath et al. 2019, definition 1
class Natural final : public SizedCodec {
 public:
  Natural() : SizedCodec("natural", "are no", "values of 9 bits") {}
  std::size_t max_bytes(std::size_t elements) const override { return cpu::packed_bytes(elements, kNaturalBits); }

 private:
  void write(Slice<const float> x, const Key& key, std::byte* begin) const override {
    const HostCopy<float> here(x);
    write_on_host(Slice<std::byte>(begin, max_bytes(x.size()), x.device()),
                  [&](std::byte* to) { pack(here.slice(), key, to); });
  }
  static void pack(Slice<const float> x, const Key& key, std::byte* to) {
    const Draws draws(key);
    std::uint32_t numbers[kBlock], block = 0;
    for (std::size_t i = 0; i < x.size(); i += kBlock, ++block) {
      const std::size_t count = std::min(kBlock, x.size() - i);
      draws.draw(block, numbers);
      round_to_powers(x.data() + i, count, numbers);
      to = cpu::pack(numbers, count, kNaturalBits, to);
    }
  }
  void read(Slice<const std::byte> payload, Slice<float> x) const override {
    const auto on_host = [&] {
      cpu::from_upper_bits(payload.data(), payload.end(), kMantissaBits, x.size(), x.data());
    };
    on_device(x.device(), on_host, [&] { cuda::from_upper_bits(payload.data(), x.size(), kMantissaBits, x.data()); });
  }
};

}  // namespace

CodecKind natural_codec() {
  return plain_codec("natural", {.bears_weights = false}, [] { return std::make_unique<Natural>(); });
}

}  // namespace laconic::compress
