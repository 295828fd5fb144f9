#include "compress/codecs.h"

#include <algorithm>
#include <charconv>

namespace laconic::compress {

/// The codecs of laconic, in the order of --help. NAME_codec() is in the codec's file; a new one adds a line.
#define LACONIC_CODECS(ROW) \
  ROW(identity)             \
  ROW(fp16)                 \
  ROW(bf16)                 \
  ROW(truncation)           \
  ROW(inceptionn)           \
  ROW(inceptionn_published) \
  ROW(inceptionn_relative)  \
  ROW(qsgd)                 \
  ROW(terngrad)             \
  ROW(groupq)               \
  ROW(natural)              \
  ROW(onebit)               \
  ROW(signs)                \
  ROW(snappy)               \
  ROW(lz4)                  \
  ROW(zfp)
#define LACONIC_DECLARE_CODEC(name) CodecKind name##_codec();
LACONIC_CODECS(LACONIC_DECLARE_CODEC)

namespace {

constexpr const char* kNone = "none";

/// The kind of the longest name that the text begins with; null if there is none.
const CodecKind* kind_of(const std::string& text) {
  const CodecKind* longest = nullptr;
  for (const CodecKind& kind : codecs())
    if ((text + ":").starts_with(kind.name + ":") && (!longest || kind.name.size() > longest->name.size()))
      longest = &kind;
  return longest;
}

}  // namespace

std::vector<CodecKind>& codecs() {
#define LACONIC_ROW(name) name##_codec(),
  static std::vector<CodecKind> all{LACONIC_CODECS(LACONIC_ROW)};
#undef LACONIC_ROW
  return all;
}

CodecKind plain_codec(const std::string& name, CodecTraits traits, std::function<std::unique_ptr<const Codec>()> make) {
  return {name,   name,
          name,   name + " takes no number",
          traits, [make = std::move(make)](std::string_view) { return make(); }};
}

std::optional<int> codec_number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

std::optional<std::pair<int, int>> codec_numbers(std::string_view text) {
  const auto colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  const auto first = codec_number(text.substr(0, colon)), second = codec_number(text.substr(colon + 1));
  return first && second ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

std::optional<int> codec_power(std::string_view text) {
  return text.starts_with("2^") ? codec_number(text.substr(2)) : std::nullopt;
}

std::unique_ptr<const Codec> make_codec(const std::string& text, const std::string& where) {
  if (text == kNone) return nullptr;
  const auto refuse = [&](const std::string& advice) {
    throw UsageError(concat("unknown value '", text, "' (", where, "): ", advice));
  };
  if (const CodecKind* const kind = kind_of(text)) {
    const bool plain = kind->form == kind->name, bare = text.size() == kind->name.size();
    const std::string_view numbers = bare ? "" : std::string_view(text).substr(kind->name.size() + 1);
    std::unique_ptr<const Codec> codec;
    if (!plain || bare) codec = kind->make(numbers);
    if (codec == nullptr) refuse(plain ? kind->advice : kind->advice + ", as " + kind->example);
    return codec;
  }
  std::vector<std::string> names{kNone};
  std::string forms = kNone;
  for (const CodecKind& kind : codecs()) names.push_back(kind.name), forms += ", " + kind.form;
  refuse(concat(did_you_mean(text.substr(0, text.find(':')), names), "There are ", forms, "."));
  return nullptr;  // not reached
}

CodecTraits traits_of(const std::string& text) {
  const CodecKind* const kind = kind_of(text);
  return kind != nullptr ? kind->traits : CodecTraits{.loses = false};
}

}  // namespace laconic::compress
