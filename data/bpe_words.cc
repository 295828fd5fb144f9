// GPT-2's pattern: see bpe.h.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "data/bpe.h"
#include "data/utf8.h"

namespace laconic {
namespace {

#include "data/unicode_ranges.inc"

/// The code points of a table of runs: where each run that belongs to it begins and ends.
struct CodePoints : std::vector<char32_t> {
  explicit CodePoints(std::span<const std::uint16_t> runs) {
    for (char32_t at = 0x80; const std::uint16_t run : runs) push_back(at += run);
  }
  bool contains(char32_t code) const { return (std::upper_bound(begin(), end(), code) - begin()) % 2 == 1; }
};

enum class Written { letter, number, space, other, nothing };

Written written_as(char32_t c) {
  static const CodePoints letters{kLetterRuns}, numbers{kNumberRuns};
  if (c < 0x80) {
    if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') return Written::letter;
    if (c >= '0' && c <= '9') return Written::number;
    return c == ' ' || (c >= '\t' && c <= '\r') ? Written::space : Written::other;
  }
  if (c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
      c == 0x202F || c == 0x205F || c == 0x3000)
    return Written::space;
  return letters.contains(c) ? Written::letter : numbers.contains(c) ? Written::number : Written::other;
}

struct Character {
  Written as = Written::nothing;  // behind the text's end
  std::size_t bytes = 0;
};

Character character_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const std::size_t bytes = utf8_bytes(text, at);
  return bytes == 0 ? Character{Written::other, 1} : Character{written_as(code_point(text, at, bytes)), bytes};
}

}  // namespace

std::size_t word_bytes(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (rest.starts_with(ending)) return ending.size();
  std::size_t end = at + (text[at] == ' ');
  Character c = character_at(text, end);
  if (c.as != Written::space && c.as != Written::nothing) {
    for (const Written as = c.as; c.as == as; c = character_at(text, end)) end += c.bytes;
    return end - at;
  }
  std::size_t last = at;  // the beginning of the last white space
  for (c = character_at(text, end = at); c.as == Written::space; c = character_at(text, end))
    last = end, end += c.bytes;
  return (c.as == Written::nothing || last == at ? end : last) - at;
}

}  // namespace laconic
