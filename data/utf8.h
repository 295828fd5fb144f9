#pragma once
#include <cstddef>
#include <string_view>

namespace laconic {

/// The bytes of the code point that begins at text[at]: 1 to 4; 0 if no well-formed one begins there. Overlong forms,
/// surrogates and what is beyond U+10FFFF are not well-formed.   at < text.size()
/// source: The Unicode Standard 15, table 3-7
std::size_t utf8_bytes(std::string_view text, std::size_t at);

/// The code point that begins at text[at] and has `bytes` bytes, as utf8_bytes() measured it.
char32_t code_point(std::string_view text, std::size_t at, std::size_t bytes);

}  // namespace laconic
