#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compress/codec.h"

namespace laconic::compress {

/// Says what a codec may be asked to carry.
struct CodecTraits {
  bool loses = true;  ///< decoding may give other values
  /// Parameters bear it: its error is small beside the larger ones. Else it is made for gradients: most of them are
  /// small, and their errors average out over steps (INCEPTIONN's section III; TernGrad too keeps parameters as they
  /// are).
  bool bears_weights = true;
  bool remembers = false;  ///< makes no sense without error feedback
};

/// A kind of codec, as `codec` names it: NAME, or NAME:NUMBERS. Each says so in its own file.
struct CodecKind {
  std::string name;     ///< "qsgd"
  std::string form;     ///< "qsgd:BITS:BUCKET", for readers; the name if it takes no numbers
  std::string example;  ///< "qsgd:8:512": what tests try
  std::string advice;   ///< advice where numbers are wrong: "give bits and values per bucket"
  CodecTraits traits{};
  /// Makes the codec of these numbers, "8:512". Returns null if they are wrong. throws UsageError if they are out of
  /// range, or if the codec is not in this build
  std::function<std::unique_ptr<const Codec>(std::string_view numbers)> make;
};

/// Makes a kind that takes no numbers.
CodecKind plain_codec(const std::string& name, CodecTraits traits, std::function<std::unique_ptr<const Codec>()> make);
/// Reads all of `text` as a whole number. Returns nothing if it is none.
std::optional<int> codec_number(std::string_view text);
/// Reads "A:B", two whole numbers. Returns nothing if the text is something else.
std::optional<std::pair<int, int>> codec_numbers(std::string_view text);
/// Reads "2^E". Returns E, or nothing if the text is no power of two.
std::optional<int> codec_power(std::string_view text);

/// The table of all kinds. Add your own before training begins.
std::vector<CodecKind>& codecs();

/// Makes the codec that a text names. Returns null for "none".
/// throws UsageError naming `where`: unknown (suggests the nearest, lists all), without or with wrong numbers, or not
///        in this build
std::unique_ptr<const Codec> make_codec(const std::string& text, const std::string& where = "`codec`");
/// Returns the traits of the codec that a text names.
CodecTraits traits_of(const std::string& text);

}  // namespace laconic::compress
