#pragma once
#include <cstdint>
#include <cstring>

#include "compress/bytes.h"
#include "compress/inceptionn/kernels.h"
#include "core/base/error.h"

/// How a message of compress/inceptionn/inceptionn.h lies in the host's memory: one payload, or two behind the length
/// of the first.
namespace laconic::compress {

[[noreturn]] inline void refuse_inceptionn(std::size_t bytes, std::size_t elements) {
  throw DataError(concat("inceptionn codec: ", bytes, " bytes are no ", elements,
                         " values. Do all ranks use the same codec, and is the file whole?"));
}

/// The most bytes that a payload of that number of values takes.
constexpr std::size_t longest_inceptionn(std::size_t elements) {
  return (elements + cpu::kGroup - 1) / cpu::kGroup * cpu::kLongestGroup;
}

struct InceptionnLayout {
  std::size_t n, h;        ///< values in all, and in the first payload
  std::size_t header = 0;  ///< bytes in front of two payloads

  /// cut : as Inceptionn has it
  InceptionnLayout(std::size_t elements, std::size_t cut) : n(elements), h(elements) {
    constexpr std::size_t kLeast = 512, kMost = std::size_t{1} << 30;
    if (cut == 0 || n < kLeast || n > kMost) return;
    const std::size_t half = (n - n / 2 + cut - 1) / cut * cut;  // no second part is longer than the first
    if (half < n) h = half, header = sizeof(std::uint32_t);
  }
  /// Where the second begins; 0 if there is none, as kernels on a CUDA device want it.
  std::size_t second() const { return header > 0 ? h : 0; }

  void put_length(std::byte* to, std::ptrdiff_t bytes) const {
    const auto length = static_cast<std::uint32_t>(bytes);
    if (header > 0) std::memcpy(to, &length, header);
  }
};

/// The payloads of a message that is read. A single one is the first; the second is empty.
struct InceptionnStreams {
  cpu::InceptionnStream first{}, second{};

  /// x : of layout.n values, or null if each part is given its own later
  /// throws DataError unless the first one's length leaves room for a second one
  InceptionnStreams(const InceptionnLayout& layout, Slice<const std::byte> message, const float* addend, float* x) {
    const std::byte *begin = message.data(), *middle = message.end();
    if (layout.header > 0) {
      std::uint32_t bytes = 0;
      if (message.size() >= sizeof bytes) std::memcpy(&bytes, begin, sizeof bytes);
      if (message.size() < sizeof bytes || bytes > message.size() - sizeof bytes)
        refuse_inceptionn(message.size(), layout.n);
      begin += sizeof bytes, middle = begin + bytes;
    }
    const std::size_t h = layout.h;
    first = {begin, middle, h, addend, x};
    second = {middle, message.end(), layout.n - h, addend ? addend + h : nullptr, x ? x + h : nullptr};
  }
  bool ended() const { return first.from == first.end && second.from == second.end; }
};

/// Writes a message part by part. Returns its end.
///   encode(first value, values, to) : returns the end of that payload
template <class Encode>
std::byte* encode_parts(const InceptionnLayout& layout, std::byte* to, Encode&& encode) {
  std::byte* const middle = encode(std::size_t{0}, layout.h, to + layout.header);
  layout.put_length(to, middle - (to + layout.header));
  return encode(layout.h, layout.n - layout.h, middle);
}

/// Appends a message to `message` whose parts are written beside each other.
///   most : bytes that it may take.   encode(first, second) : moves both to the ends of the payloads that it writes
///   there
template <class Encode>
void encode_both(const InceptionnLayout& layout, std::size_t most, Bytes& message, Encode&& encode) {
  const std::size_t before = message.size();
  std::byte* const to = message.append(most).data();
  // Where the second one begins is known at the end: until then it lies behind the first one's longest.
  std::byte *const begin_first = to + layout.header, *const begin_second = begin_first + longest_inceptionn(layout.h);
  std::byte *first = begin_first, *second = begin_second;
  encode(first, second);
  const auto bytes_second = static_cast<std::size_t>(second - begin_second);
  if (layout.header > 0) std::memmove(first, begin_second, bytes_second);  // else there is perhaps no memory
  layout.put_length(to, first - begin_first);
  message.resize(before + static_cast<std::size_t>(first - to) + bytes_second);
}

}  // namespace laconic::compress
