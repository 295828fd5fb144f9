#include "compress/inceptionn.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "compress/cuda/inceptionn.h"
#include "core/dispatch.h"
#include "core/stream.h"

namespace laconic::compress {
namespace {

constexpr int kBias = 127;

std::uint32_t bits_of(double v) { return std::bit_cast<std::uint32_t>(static_cast<float>(v)); }

constexpr std::size_t kPair = 2 * cpu::kGroup;
constexpr std::size_t kHeader = sizeof(std::uint32_t);  // bytes in front of two payloads

std::size_t longest(std::size_t elements) { return (elements + cpu::kGroup - 1) / cpu::kGroup * cpu::kLongestGroup; }

void put_length(std::byte* to, std::ptrdiff_t bytes) {
  const auto length = static_cast<std::uint32_t>(bytes);
  std::memcpy(to, &length, kHeader);
}

/// What a kernel on a CUDA device tells of one message: kernel(where).
template <class Kernel>
cuda::InceptionnFound told(Device device, Kernel&& kernel) {
  const Storage there(sizeof(cuda::InceptionnFound), device);
  zero_bytes(there.data(), device, there.bytes());
  kernel(reinterpret_cast<cuda::InceptionnFound*>(there.data()));
  cuda::InceptionnFound found{};
  copy_bytes(&found, kCpu, there.data(), device, sizeof found);
  return found;
}

[[noreturn]] void refuse_inceptionn(std::size_t bytes, std::size_t elements) {
  throw DataError(concat("inceptionn codec: ", bytes, " bytes are no ", elements,
                         " values. Do all ranks use the same codec, and is the file whole?"));
}

CodecKind inceptionn_kind(const std::string& name, InceptionnMode mode) {
  return {name,
          name + ":2^E",
          name + ":2^-10",
          "give the error bound as a power of two",
          {.bears_weights = false},
          [mode](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto exponent = codec_power(numbers);
            return exponent ? std::make_unique<Inceptionn>(mode, *exponent, true) : nullptr;
          }};
}

/// The payloads of a message on the host. A single one is the first; the second is empty.
struct Halves {
  cpu::InceptionnStream first, second;
  bool ended() const { return first.from == first.end && second.from == second.end; }
};

/// h : values of the first.   throws DataError unless its length leaves room for a second one
Halves halves_of(Slice<const std::byte> message, const float* addend, Slice<float> x, std::size_t h) {
  const std::size_t n = x.size();
  const std::byte *begin = message.data(), *middle = message.end();
  if (h < n) {
    std::uint32_t bytes = 0;
    if (message.size() >= kHeader) std::memcpy(&bytes, begin, kHeader);
    if (message.size() < kHeader || bytes > message.size() - kHeader) refuse_inceptionn(message.size(), n);
    begin += kHeader, middle = begin + bytes;
  }
  return {{begin, middle, h, addend, x.data()},
          {middle, message.end(), n - h, addend ? addend + h : nullptr, x.data() + h}};
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

Inceptionn::Inceptionn(InceptionnMode mode, int exponent, bool halves)
    : mode_(mode),
      exponent_(exponent),
      halves_(halves),
      rule_(inceptionn_rule(mode, std::clamp(exponent, kLeastExponent, kMostExponent))) {
  require<UsageError>(exponent >= kLeastExponent && exponent <= kMostExponent, "the bound 2^", exponent,
                      " (inceptionn): choose one from 2^", kLeastExponent, " to 2^", kMostExponent);
}

/// Values of the first payload: of two the longer half, else all.
std::size_t Inceptionn::first_of(std::size_t elements) const {
  constexpr std::size_t kLeast = 512, kMost = std::size_t{1} << 30;
  const bool two = halves_ && elements >= kLeast && elements <= kMost;
  return two ? (elements / 2 + kPair - 1) / kPair * kPair : elements;
}

std::size_t Inceptionn::header_of(std::size_t elements) const { return first_of(elements) < elements ? kHeader : 0; }

std::size_t Inceptionn::max_bytes(std::size_t elements) const { return header_of(elements) + longest(elements); }

void Inceptionn::encode(Slice<const float> x, const Key&, Bytes& payload) const {
  if (x.empty()) return;
  const std::size_t n = x.size(), h = first_of(n), header = header_of(n), before = payload.size();
  std::byte* const to = payload.append(max_bytes(n)).data();
  const auto on_host = [&] {
    std::byte* const middle = cpu::encode_inceptionn(rule_, x.data(), h, to + header);
    if (header > 0) put_length(to, middle - (to + header));
    return static_cast<std::size_t>(cpu::encode_inceptionn(rule_, x.data() + h, n - h, middle) - to);
  };
  const std::size_t bytes = on_device(x.device(), on_host, [&] {
    return std::size_t{told(x.device(), [&](cuda::InceptionnFound* found) {
                         cuda::encode_inceptionn(rule_, x.data(), n, header > 0 ? h : 0, to, found);
                       }).bytes};
  });
  payload.resize(before + bytes);
}

void Inceptionn::decode(Slice<const std::byte> payload, const float* addend, Slice<float> x) const {
  const std::size_t n = x.size(), h = first_of(n), header = header_of(n);
  const auto on_host = [&] {
    Halves all = halves_of(payload, addend, x, h);
    return cpu::decode_inceptionn(rule_, all.first, all.second) && all.ended();
  };
  const bool right = on_device(x.device(), on_host, [&] {
    if (payload.size() > max_bytes(n) || payload.size() < header) return false;
    if (x.empty()) return payload.empty();
    return told(x.device(), [&](cuda::InceptionnFound* found) {
             cuda::decode_inceptionn(rule_, payload.data(), payload.size(), n, header > 0 ? h : 0, addend, x.data(),
                                     found);
           }).wrong == 0;
  });
  if (!right) refuse_inceptionn(payload.size(), n);
}

void Inceptionn::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key, Bytes& sum) const {
  if (x.device().kind == Device::Kind::cuda) return Codec::decode_add_encode(payload, x, key, sum);
  const std::size_t n = x.size(), h = first_of(n), header = header_of(n);
  const bool right = on_device(x.device(), [&] {
    const std::size_t before = sum.size();
    std::byte* const to = sum.append(max_bytes(n)).data();
    Halves all = halves_of(payload, x.data(), x, h);
    // Where the second one begins is known at the end: until then it lies behind the first one's longest.
    std::byte *const begin_first = to + header, *const begin_second = begin_first + longest(h);
    std::byte *first = begin_first, *second = begin_second;
    if (!cpu::decode_add_encode_inceptionn(rule_, all.first, all.second, first, second)) return false;
    const auto bytes_second = static_cast<std::size_t>(second - begin_second);
    if (header > 0)
      std::memmove(first, begin_second, bytes_second);  // else there is one payload, and perhaps no memory
    if (header > 0) put_length(to, first - begin_first);
    sum.resize(before + static_cast<std::size_t>(first - to) + bytes_second);
    return all.ended();
  });
  if (!right) refuse_inceptionn(payload.size(), n);
}

double Inceptionn::expected_bytes(std::size_t elements) const {
  constexpr double kBits[] = {5.72, 3.63, 2.59};  // at 2^-10, 2^-8, 2^-6
  return static_cast<double>(elements) * kBits[std::clamp((exponent_ + 11) / 2, 0, 2)] / 8 +
         static_cast<double>(header_of(elements));
}

}  // namespace laconic::compress
