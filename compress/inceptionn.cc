#include "compress/inceptionn.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "compress/inceptionn_on_cuda.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

constexpr int kBias = 127;

std::uint32_t bits_of(double v) { return std::bit_cast<std::uint32_t>(static_cast<float>(v)); }

std::size_t groups_of(std::size_t elements) { return (elements + cpu::kGroup - 1) / cpu::kGroup; }

cpu::InceptionnStream stream_of(Slice<const std::byte> payload, const float* addend, Slice<float> x) {
  return {payload.data(), payload.data() + payload.size(), x.size(), addend, x.data()};
}

}  // namespace

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

Inceptionn::Inceptionn(InceptionnMode mode, int exponent)
    : mode_(mode),
      exponent_(exponent),
      rule_(inceptionn_rule(mode, std::clamp(exponent, kLeastExponent, kMostExponent))) {
  require<UsageError>(exponent >= kLeastExponent && exponent <= kMostExponent, "the bound 2^", exponent,
                      " (inceptionn): choose one from 2^", kLeastExponent, " to 2^", kMostExponent);
}

std::size_t Inceptionn::max_bytes(std::size_t elements) const { return groups_of(elements) * cpu::kLongestGroup; }

void Inceptionn::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  if (x.empty()) return;
  const std::size_t most = max_bytes(x.size());
  on_device(
      x.device(),
      [&] {
        const std::size_t before = payload.size();
        std::byte* const to = payload.append(most).data();
        const std::byte* const end = cpu::encode_inceptionn(rule_, x.data(), x.size(), to);
        payload.resize(before + static_cast<std::size_t>(end - to));
      },
      [&] { encode_inceptionn_on_cuda(rule_, x, 0, most, payload); });
}

void Inceptionn::decode(Slice<const std::byte> payload, Slice<float> x) const {
  const bool right = on_device(
      x.device(),
      [&] {
        cpu::InceptionnStream all = stream_of(payload, nullptr, x);
        return cpu::decode_inceptionn(rule_, all) && all.from == all.end;
      },
      [&] { return decode_inceptionn_on_cuda(rule_, payload, nullptr, x, 0, max_bytes(x.size())); });
  if (!right) refuse_inceptionn(payload.size(), x.size());
}

void Inceptionn::decode_add(Slice<const std::byte> payload, Slice<float> x) const {
  const bool right = on_device(
      x.device(),
      [&] {
        cpu::InceptionnStream all = stream_of(payload, x.data(), x);
        return cpu::decode_inceptionn(rule_, all) && all.from == all.end;
      },
      [&] { return decode_inceptionn_on_cuda(rule_, payload, x.data(), x, 0, max_bytes(x.size())); });
  if (!right) refuse_inceptionn(payload.size(), x.size());
}

void Inceptionn::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key&, Bytes& sum) const {
  const std::size_t most = max_bytes(x.size());
  const auto on_host = [&] {
    const std::size_t before = sum.size();
    std::byte* to = sum.append(most).data();
    cpu::InceptionnStream all = stream_of(payload, x.data(), x);
    const std::byte* const begin = to;
    const bool whole = cpu::decode_add_encode_inceptionn(rule_, all, to) && all.from == all.end;
    sum.resize(before + static_cast<std::size_t>(to - begin));
    return whole;
  };
  const bool right = on_device(x.device(), on_host, [&] {
    if (!decode_inceptionn_on_cuda(rule_, payload, x.data(), x, 0, most)) return false;
    if (!x.empty()) encode_inceptionn_on_cuda(rule_, x, 0, most, sum);
    return true;
  });
  if (!right) refuse_inceptionn(payload.size(), x.size());
}

double Inceptionn::expected_bytes(std::size_t elements) const {
  constexpr double kBits[] = {5.72, 3.63, 2.59};  // at 2^-10, 2^-8, 2^-6
  return static_cast<double>(elements) * kBits[std::clamp((exponent_ + 11) / 2, 0, 2)] / 8;
}

void refuse_inceptionn(std::size_t bytes, std::size_t elements) {
  throw DataError(concat("inceptionn codec: ", bytes, " bytes are no ", elements,
                         " values. Do all ranks use the same codec, and is the file whole?"));
}

}  // namespace laconic::compress
