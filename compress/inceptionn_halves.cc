#include "compress/inceptionn_halves.h"

#include <cstring>

#include "compress/inceptionn_on_cuda.h"
#include "core/dispatch.h"

namespace laconic::compress {
namespace {

constexpr std::size_t kLeast = 512, kMost = std::size_t{1} << 30;  // values that are cut in two
constexpr std::size_t kLength = sizeof(std::uint32_t);             // bytes in front
constexpr std::size_t kPair = 2 * cpu::kGroup;

bool cut(std::size_t elements) { return elements >= kLeast && elements <= kMost; }

/// Values of the first half: the longer one.
std::size_t first_of(std::size_t elements) { return (elements / 2 + kPair - 1) / kPair * kPair; }

struct Halves {
  cpu::InceptionnStream first, second;
  bool ended() const { return first.from == first.end && second.from == second.end; }
};

/// Throws DataError unless the first payload's length leaves room for a second one.
Halves halves_of(Slice<const std::byte> message, const float* addend, float* x, std::size_t n) {
  std::uint32_t bytes = 0;
  if (message.size() >= kLength) std::memcpy(&bytes, message.data(), kLength);
  if (message.size() < kLength || bytes > message.size() - kLength) refuse_inceptionn(message.size(), n);
  const std::byte *const begin = message.data() + kLength, *const middle = begin + bytes;
  const std::size_t h = first_of(n);
  return {{begin, middle, h, addend, x},
          {middle, message.data() + message.size(), n - h, addend ? addend + h : nullptr, x ? x + h : nullptr}};
}

void put_length(std::byte* to, std::ptrdiff_t bytes) {
  const auto length = static_cast<std::uint32_t>(bytes);
  std::memcpy(to, &length, kLength);
}

}  // namespace

CodecKind InceptionnHalves::kind(InceptionnMode mode) {
  const std::string name = mode == InceptionnMode::bounded ? "inceptionn" : "inceptionn-published";
  return {name,
          name + ":2^E",
          name + ":2^-10",
          "give the error bound as a power of two",
          {.bears_weights = false},
          [mode](std::string_view numbers) -> std::unique_ptr<const Codec> {
            const auto exponent = numbers.starts_with("2^") ? codec_number(numbers.substr(2)) : std::nullopt;
            return exponent ? std::make_unique<InceptionnHalves>(mode, *exponent) : nullptr;
          }};
}

std::size_t InceptionnHalves::max_bytes(std::size_t elements) const {
  return one_.max_bytes(elements) + (cut(elements) ? kLength : 0);
}

void InceptionnHalves::encode(Slice<const float> x, const Key& key, Bytes& payload) const {
  const std::size_t n = x.size(), h = first_of(n);
  if (!cut(n)) return one_.encode(x, key, payload);
  const auto on_host = [&] {
    const std::size_t before = payload.size();
    std::byte* const to = payload.append(max_bytes(n)).data();
    std::byte* const middle = cpu::encode_inceptionn(rule_, x.data(), h, to + kLength);
    const std::byte* const end = cpu::encode_inceptionn(rule_, x.data() + h, n - h, middle);
    put_length(to, middle - to - static_cast<std::ptrdiff_t>(kLength));
    payload.resize(before + static_cast<std::size_t>(end - to));
  };
  on_device(x.device(), on_host, [&] { encode_inceptionn_on_cuda(rule_, x, h, max_bytes(n), payload); });
}

void InceptionnHalves::decode(Slice<const std::byte> payload, Slice<float> x) const {
  if (!cut(x.size())) return one_.decode(payload, x);
  const auto on_host = [&] {
    Halves all = halves_of(payload, nullptr, x.data(), x.size());
    return cpu::decode_inceptionn(rule_, all.first, all.second) && all.ended();
  };
  const bool right = on_device(x.device(), on_host, [&] {
    return decode_inceptionn_on_cuda(rule_, payload, nullptr, x, first_of(x.size()), max_bytes(x.size()));
  });
  if (!right) refuse_inceptionn(payload.size(), x.size());
}

void InceptionnHalves::decode_add(Slice<const std::byte> payload, Slice<float> x) const {
  if (!cut(x.size())) return one_.decode_add(payload, x);
  const auto on_host = [&] {
    Halves all = halves_of(payload, x.data(), x.data(), x.size());
    return cpu::decode_inceptionn(rule_, all.first, all.second) && all.ended();
  };
  const bool right = on_device(x.device(), on_host, [&] {
    return decode_inceptionn_on_cuda(rule_, payload, x.data(), x, first_of(x.size()), max_bytes(x.size()));
  });
  if (!right) refuse_inceptionn(payload.size(), x.size());
}

void InceptionnHalves::decode_add_encode(Slice<const std::byte> payload, Slice<float> x, const Key& key,
                                         Bytes& sum) const {
  const std::size_t n = x.size();
  if (!cut(n)) return one_.decode_add_encode(payload, x, key, sum);
  const auto on_host = [&] {
    const std::size_t before = sum.size();
    std::byte* const to = sum.append(max_bytes(n)).data();
    Halves all = halves_of(payload, x.data(), nullptr, n);
    // Where the second one begins is known at the end: until then it lies behind the first one's longest.
    std::byte* const begin_first = to + kLength;
    std::byte* const begin_second = begin_first + one_.max_bytes(first_of(n));
    std::byte *first = begin_first, *second = begin_second;
    if (!cpu::decode_add_encode_inceptionn(rule_, all.first, all.second, first, second)) return false;
    const auto bytes_second = static_cast<std::size_t>(second - begin_second);
    std::memmove(first, begin_second, bytes_second);
    put_length(to, first - begin_first);
    sum.resize(before + static_cast<std::size_t>(first - to) + bytes_second);
    return all.ended();
  };
  const bool right = on_device(x.device(), on_host, [&] {
    if (!decode_inceptionn_on_cuda(rule_, payload, x.data(), x, first_of(n), max_bytes(n))) return false;
    encode_inceptionn_on_cuda(rule_, x, first_of(n), max_bytes(n), sum);
    return true;
  });
  if (!right) refuse_inceptionn(payload.size(), n);
}

double InceptionnHalves::expected_bytes(std::size_t elements) const {
  return one_.expected_bytes(elements) + (cut(elements) ? static_cast<double>(kLength) : 0);
}

}  // namespace laconic::compress
