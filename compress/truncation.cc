#include "compress/truncation.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compress/cpu/unpack.h"
#include "compress/cuda/codecs.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

using cpu::kBlock;

template <class Word>
LACONIC_INLINE void cut_loop(const float* LACONIC_RESTRICT x, std::size_t n, std::byte* LACONIC_RESTRICT to) {
  for (std::size_t i = 0; i < n; ++i) {
    std::uint32_t bits;
    std::memcpy(&bits, x + i, sizeof bits);
    const auto word = static_cast<Word>(bits >> (32 - 8 * sizeof(Word)));
    std::memcpy(to + i * sizeof(Word), &word, sizeof word);
  }
}
template <class Word>
LACONIC_INLINE void restore_loop(const std::byte* LACONIC_RESTRICT from, std::size_t n, float* LACONIC_RESTRICT x) {
  for (std::size_t i = 0; i < n; ++i) {
    Word word;
    std::memcpy(&word, from + i * sizeof(Word), sizeof word);
    const std::uint32_t bits = std::uint32_t{word} << (32 - 8 * sizeof(Word));
    std::memcpy(x + i, &bits, sizeof bits);
  }
}
LACONIC_MULTIVERSION void cut16(const float* x, std::size_t n, std::byte* to) { cut_loop<std::uint16_t>(x, n, to); }
LACONIC_MULTIVERSION void cut24(const float* x, std::size_t n, std::byte* to) { cut_loop<std::uint8_t>(x, n, to); }
LACONIC_MULTIVERSION void restore16(const std::byte* from, std::size_t n, float* x) {
  restore_loop<std::uint16_t>(from, n, x);
}
LACONIC_MULTIVERSION void restore24(const std::byte* from, std::size_t n, float* x) {
  restore_loop<std::uint8_t>(from, n, x);
}

}  // namespace

CodecKind Truncation::kind() {
  return {"trunc",
          "trunc:BITS",
          "trunc:16",
          "give the bits to cut off",
          {.bears_weights = false},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto bits = codec_number(numbers);
            return bits ? std::make_unique<Truncation>(*bits) : nullptr;
          }};
}

Truncation::Truncation(int cut) : cut_(static_cast<unsigned>(cut)), width_(32 - cut_) {
  require<UsageError>(cut >= 1 && cut <= 31, "a float cannot lose ", cut,
                      " of its 32 bits (trunc): cut off 1 to 31, as trunc:16");
}

std::size_t Truncation::max_bytes(std::size_t elements) const { return cpu::packed_bytes(elements, width_); }

void Truncation::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  std::byte* to = payload.append(max_bytes(x.size())).data();
  if (x.empty()) return;
  const auto on_host = [&] {
    if (cut_ == 16) return cut16(x.data(), x.size(), to);
    if (cut_ == 24) return cut24(x.data(), x.size(), to);
    std::uint32_t numbers[kBlock];
    for (std::size_t i = 0; i < x.size(); i += kBlock) {
      const std::size_t count = std::min(kBlock, x.size() - i);
      for (std::size_t j = 0; j < count; ++j) numbers[j] = std::bit_cast<std::uint32_t>(x[i + j]) >> cut_;
      to = cpu::pack(numbers, count, width_, to);
    }
  };
  on_device(x.device(), on_host, [&] { cuda::truncate(x.data(), x.size(), cut_, to); });
}

void Truncation::decode(Slice<const std::byte> payload, Slice<float> x) const {
  require<DataError>(payload.size() == max_bytes(x.size()), "truncation codec: ", payload.size(), " bytes are no ",
                     x.size(), " values of ", width_, " bits. Do all ranks use the same codec?");
  if (x.empty()) return;
  const auto on_host = [&] {
    const std::byte* from = payload.data();
    if (cut_ == 16) return restore16(from, x.size(), x.data());
    if (cut_ == 24) return restore24(from, x.size(), x.data());
    std::uint32_t numbers[kBlock];
    for (std::size_t i = 0; i < x.size(); i += kBlock) {
      const std::size_t count = std::min(kBlock, x.size() - i);
      cpu::unpack(from, payload.data() + payload.size(), width_, count, numbers);
      for (std::size_t j = 0; j < count; ++j) x[i + j] = std::bit_cast<float>(numbers[j] << cut_);
      from += (count * width_ + 7) / 8;
    }
  };
  on_device(x.device(), on_host, [&] { cuda::restore_truncated(payload.data(), x.size(), cut_, x.data()); });
}

}  // namespace laconic::compress
