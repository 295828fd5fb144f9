#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/cuda/inceptionn.h"
#include "compress/inceptionn.h"
#include "compress/ordered_sum.h"
#include "compress/value_bits.h"
#include "core/cpu/simd.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kScaledBlock = kSumChunk;

std::size_t scaled_blocks(std::size_t elements) { return (elements + kScaledBlock - 1) / kScaledBlock; }

/// The sum of magnitudes.
LACONIC_MULTIVERSION LACONIC_FLATTEN double sum_of_magnitudes(const float* x, std::size_t n) {
  return ordered_sums<1>(
      n, [=](std::size_t i, std::size_t lane, auto& sums) { sums[0][lane] += std::abs(static_cast<double>(x[i])); })[0];
}

LACONIC_MULTIVERSION void scale_values(float* y, const float* x, float factor, std::size_t n) {
  LACONIC_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) y[i] = factor * x[i];
}

/// y may be x. A factor of 1 changes no bit, also of a NaN.
void scale_by_exponent(float* y, const float* x, int exponent, std::size_t n) {
  if (exponent != 0)
    scale_values(y, x, power_of_two(exponent), n);
  else if (y != x)
    std::memcpy(y, x, n * sizeof(float));
}

}  // namespace

CodecKind inceptionn_relative_codec() {
  return {"inceptionn:rel",
          "inceptionn:rel:2^E",
          "inceptionn:rel:2^-1",
          "give the error bound as a power of two, in mean magnitudes",
          {.bears_weights = false},
          [](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto exponent = codec_power(numbers);
            return exponent ? std::make_unique<RelativeInceptionn>(*exponent) : nullptr;
          }};
}

RelativeInceptionn::RelativeInceptionn(int exponent)
    : exponent_(exponent), inner_(InceptionnMode::bounded, std::clamp(exponent, -20, 20) - 8, /*halves=*/true) {
  require<UsageError>(exponent >= -20 && exponent <= 20, "the bound 2^", exponent,
                      " of a mean (inceptionn:rel): choose one from 2^-20 to 2^20");
}

std::size_t RelativeInceptionn::max_bytes(std::size_t elements) const {
  return scaled_blocks(elements) + inner_.max_bytes(elements);
}

void RelativeInceptionn::encode(Slice<const float> x, const Key& key, Bytes& payload) const {
  if (x.empty()) return;
  const std::size_t n = x.size();
  payload.reserve(payload.size() + max_bytes(n));
  auto* const exponents = reinterpret_cast<std::int8_t*>(payload.append(scaled_blocks(n)).data());
  const Storage scaled(n * sizeof(float), x.device());
  auto* const y = reinterpret_cast<float*>(scaled.data());
  const auto on_host = [&] {
    for (std::size_t at = 0; at < n; at += kScaledBlock) {
      const std::size_t count = std::min(kScaledBlock, n - at);
      const int exponent = exponent_for_mean(sum_of_magnitudes(x.data() + at, count), count);
      exponents[at / kScaledBlock] = static_cast<std::int8_t>(exponent);
      scale_by_exponent(y + at, x.data() + at, -exponent, count);
    }
  };
  on_device(x.device(), on_host, [&] { cuda::scale_by_means(x.data(), n, exponents, y); });
  inner_.encode(Slice<const float>(y, n, x.device()), key, payload);
}

void RelativeInceptionn::decode(Slice<const std::byte> payload, Slice<float> x) const {
  const std::size_t n = x.size(), blocks = scaled_blocks(n);
  require<DataError>(payload.size() >= blocks, "inceptionn codec: ", payload.size(), " bytes are no ", n,
                     " values. Do all ranks use the same codec, and is the file whole?");
  const auto* const exponents = reinterpret_cast<const std::int8_t*>(payload.data());
  inner_.decode(payload.sub(blocks, payload.size() - blocks), x);
  const auto on_host = [&] {
    for (std::size_t at = 0; at < n; at += kScaledBlock)
      scale_by_exponent(x.data() + at, x.data() + at, exponents[at / kScaledBlock], std::min(kScaledBlock, n - at));
  };
  on_device(x.device(), on_host, [&] { cuda::scale_back(exponents, n, x.data()); });
}

double RelativeInceptionn::expected_bytes(std::size_t elements) const {
  const double bound = std::ldexp(0.72, exponent_);  // in means: so much of one is the power of two below it
  const double bits = 2 + 8 * std::exp(-bound) + 8 * std::exp(-255 * bound);
  return static_cast<double>(scaled_blocks(elements)) + static_cast<double>(elements) * bits / 8;
}

}  // namespace laconic::compress
