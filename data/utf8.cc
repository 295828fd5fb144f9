#include "data/utf8.h"

#include <cstdint>

namespace laconic {

std::size_t utf8_bytes(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (at + bytes > text.size()) return 0;
  std::uint8_t low = 0x80, high = 0xBF;  // bounds of the second byte
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = at + 1; i < at + bytes; ++i, low = 0x80, high = 0xBF)
    if (byte(i) < low || byte(i) > high) return 0;
  return bytes;
}

char32_t code_point(std::string_view text, std::size_t at, std::size_t bytes) {
  const auto lead = static_cast<std::uint8_t>(text[at]);
  char32_t code = bytes == 1 ? lead : lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) code = code << 6 | (static_cast<std::uint8_t>(text[at + i]) & 0x3Fu);
  return code;
}

}  // namespace laconic
