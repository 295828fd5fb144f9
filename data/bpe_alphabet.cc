#include "data/bpe_alphabet.h"

#include <array>
#include <unordered_map>

#include "data/utf8.h"

namespace laconic {
namespace {

struct Alphabet {
  std::array<char32_t, 256> of_byte{};
  std::vector<std::uint8_t> order;
  std::unordered_map<char32_t, std::uint8_t> byte_of;

  Alphabet() {
    const auto printable = [](int b) { return (b > ' ' && b <= '~') || (b > 0xA0 && b != 0xAD); };
    char32_t next = 0x100;
    for (const bool stands_for_itself : {true, false})
      for (int b = 0; b < 256; ++b) {
        if (printable(b) != stands_for_itself) continue;
        const char32_t code = stands_for_itself ? static_cast<char32_t>(b) : next++;
        of_byte[static_cast<std::size_t>(b)] = code;
        byte_of[code] = static_cast<std::uint8_t>(b);
        order.push_back(static_cast<std::uint8_t>(b));
      }
  }
};

const Alphabet kAlphabet;

}  // namespace

const std::vector<std::uint8_t>& bytes_in_alphabet_order() { return kAlphabet.order; }

std::string spelled_in_alphabet(std::string_view bytes) {
  std::string text;
  for (const char b : bytes) {
    const char32_t code = kAlphabet.of_byte[static_cast<std::uint8_t>(b)];
    if (code >= 0x80) text += static_cast<char>(0xC0 | code >> 6);
    text += static_cast<char>(code < 0x80 ? code : 0x80 | (code & 0x3F));
  }
  return text;
}

std::optional<std::string> read_in_alphabet(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0, n = 0; i < text.size(); i += n) {
    n = utf8_bytes(text, i);
    const auto byte = kAlphabet.byte_of.find(n == 0 ? 0 : code_point(text, i, n));
    if (byte == kAlphabet.byte_of.end()) return std::nullopt;
    bytes += static_cast<char>(byte->second);
  }
  return bytes;
}

}  // namespace laconic
