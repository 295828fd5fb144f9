#include "compress/inceptionn/inceptionn.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compress/cuda/inceptionn.h"
#include "compress/inceptionn/message.h"
#include "core/dispatch.h"
#include "core/stream.h"

namespace laconic::compress {
namespace {

constexpr int kBias = 127;

std::uint32_t bits_of(double v) { return std::bit_cast<std::uint32_t>(static_cast<float>(v)); }

/// What a kernel on a CUDA device tells of one message: kernel(where).
template <class Kernel>
cuda::InceptionnFound told(Device device, Kernel&& kernel) {
  const Storage there(sizeof(cuda::InceptionnFound), device);
  zero_bytes(there.data(), device, there.bytes());
  if constexpr (kCudaBuilt) kernel(reinterpret_cast<cuda::InceptionnFound*>(there.data()));
  cuda::InceptionnFound found{};
  copy_bytes(&found, kCpu, there.data(), device, sizeof found);
  return found;
}

CodecKind inceptionn_kind(const std::string& name, InceptionnMode mode) {
  return {name,
          name + ":2^E",
          name + ":2^-10",
          "give the error bound as a power of two",
          {.bears_weights = false},
          [mode](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto exponent = codec_power(numbers);
            return exponent ? std::make_unique<Inceptionn>(mode, *exponent, 2 * cpu::kGroup) : nullptr;
          }};
}

}  // namespace

CodecKind inceptionn_codec() { return inceptionn_kind("inceptionn", InceptionnMode::bounded); }
CodecKind inceptionn_published_codec() { return inceptionn_kind("inceptionn-published", InceptionnMode::published); }

const char* to_string(InceptionnMode mode) { return mode == InceptionnMode::published ? "published" : "bounded"; }

cpu::InceptionnRule inceptionn_rule(InceptionnMode mode, int exponent) {
  if (mode == InceptionnMode::published) {
    // Algorithm 2 by biased exponents: what is at least 1 travels whole, even where the bound is larger.
    const int least = std::min(exponent + kBias, kBias), middle = least + (kBias - least + 1) / 2;
    return {.skip = static_cast<std::uint32_t>(least) << 23,
            .eight = static_cast<std::uint32_t>(middle) << 23,
            .sixteen = static_cast<std::uint32_t>(kBias) << 23,
            .scale8 = 0x1p7f,
            .scale16 = 0x1p15f,
            .truncate = true};
  }
  // Where rounding would give 128 or 32768; both lie on a tie, which goes to the even, larger one.
  const double step8 = std::ldexp(1.0, exponent + 1), step16 = std::min(step8, 0x1p-15);
  const double eight = 127.5 * step8, sixteen = std::max(eight, 32767.5 * step16);
  return {.skip = bits_of(step8 / 2),
          .eight = bits_of(eight),
          .sixteen = bits_of(sixteen),
          .scale8 = static_cast<float>(1 / step8),
          .scale16 = static_cast<float>(1 / step16),
          .truncate = false};
}

Inceptionn::Inceptionn(InceptionnMode mode, int exponent, std::size_t cut)
    : mode_(mode),
      exponent_(exponent),
      cut_(cut),
      rule_(inceptionn_rule(mode, std::clamp(exponent, kLeastExponent, kMostExponent))) {
  require<UsageError>(exponent >= kLeastExponent && exponent <= kMostExponent, "the bound 2^", exponent,
                      " (inceptionn): choose one from 2^", kLeastExponent, " to 2^", kMostExponent);
}

std::size_t Inceptionn::max_bytes(std::size_t elements) const {
  return InceptionnLayout(elements, cut_).header + longest_inceptionn(elements);
}

void Inceptionn::encode_on_host(Slice<const float> x, Bytes& payload, float* read) const {
  const std::size_t before = payload.size();
  std::byte* const to = payload.append(max_bytes(x.size())).data();
  const std::byte* const end =
      encode_parts(InceptionnLayout(x.size(), cut_), to, [&](std::size_t first, std::size_t count, std::byte* part) {
        return cpu::encode_inceptionn(rule_, x.data() + first, count, part, read ? read + first : nullptr);
      });
  payload.resize(before + static_cast<std::size_t>(end - to));
}

void Inceptionn::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  if (x.empty()) return;
  on_device(
      x.device(), [&] { encode_on_host(x, payload, nullptr); },
      [&] {
        const std::size_t n = x.size(), before = payload.size();
        std::byte* const to = payload.append(max_bytes(n)).data();
        const auto kernel = [&](cuda::InceptionnFound* found) {
          cuda::encode_inceptionn(rule_, x.data(), n, InceptionnLayout(n, cut_).second(), to, found);
        };
        payload.resize(before + told(x.device(), kernel).bytes);
      });
}

void Inceptionn::encode_and_decode(Slice<const float> x, const Key& key, Bytes& payload, Slice<float> read) const {
  if (x.empty()) return;
  on_device(
      x.device(), [&] { encode_on_host(x, payload, read.data()); },
      [&] { Codec::encode_and_decode(x, key, payload, read); });
}

void Inceptionn::decode(Slice<const std::byte> payload, const float* addend, Slice<float> x) const {
  const InceptionnLayout layout(x.size(), cut_);
  const auto on_host = [&] {
    InceptionnStreams all(layout, payload, addend, x.data());
    return cpu::decode_inceptionn(rule_, all.first, all.second) && all.ended();
  };
  const bool right = on_device(x.device(), on_host, [&] {
    if (payload.size() > max_bytes(x.size()) || payload.size() < layout.header) return false;
    if (x.empty()) return payload.empty();
    return told(x.device(), [&](cuda::InceptionnFound* found) {
             cuda::decode_inceptionn(rule_, payload.data(), payload.size(), x.size(), layout.second(), addend, x.data(),
                                     found);
           }).wrong == 0;
  });
  if (!right) refuse_inceptionn(payload.size(), x.size());
}

void Inceptionn::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const {
  if (x.device().kind == Device::Kind::cuda) return Codec::decode_add_encode(payload, x, key, sum);
  on_device(x.device(), [&] {
    const InceptionnLayout layout(x.size(), cut_);
    InceptionnStreams all(layout, payload, x.data(), x.data());
    encode_both(layout, max_bytes(x.size()), sum, [&](std::byte*& first, std::byte*& second) {
      if (!cpu::decode_add_encode_inceptionn(rule_, all.first, all.second, first, second) || !all.ended())
        refuse_inceptionn(payload.size(), x.size());
    });
  });
}

double Inceptionn::expected_bytes(std::size_t elements) const {
  constexpr double kBits[] = {5.72, 3.63, 2.59};  // at 2^-10, 2^-8, 2^-6
  return static_cast<double>(elements) * kBits[std::clamp((exponent_ + 11) / 2, 0, 2)] / 8 +
         static_cast<double>(InceptionnLayout(elements, cut_).header);
}

}  // namespace laconic::compress
