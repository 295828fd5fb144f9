#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace laconic {

// GPT-2's alphabet, in which files spell bytes: printable characters of Latin-1 stand for themselves, the other bytes
// for U+0100 and so on. source: Radford et al. 2019, their encoder.py

/// The 256 bytes as their characters sort, which is how GPT-2 numbers them.
const std::vector<std::uint8_t>& bytes_in_alphabet_order();
/// Bytes in the alphabet, as UTF-8.
std::string spelled_in_alphabet(std::string_view bytes);
/// The bytes that a text in the alphabet spells; nothing if it has another character.
std::optional<std::string> read_in_alphabet(std::string_view text);

}  // namespace laconic
