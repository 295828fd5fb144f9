#include "compress/make_codec.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "compress/half.h"
#include "compress/identity.h"
#include "compress/inceptionn_halves.h"
#include "compress/lossless.h"
#include "compress/onebit.h"
#include "compress/stochastic.h"
#include "compress/truncation.h"

namespace laconic::compress {
namespace {

std::optional<int> whole(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                   : std::nullopt;
}

std::string listed() {
  std::string all;
  for (const std::string& name : codec_names()) all += (all.empty() ? "" : ", ") + name;
  return all;
}

}  // namespace

const std::vector<std::string>& codec_names() {
  static const std::vector<std::string> names{"none",
                                              "identity",
                                              "fp16",
                                              "bf16",
                                              "trunc:BITS",
                                              "inceptionn:2^E",
                                              "inceptionn-published:2^E",
                                              "qsgd:BITS:BUCKET",
                                              "terngrad",
                                              "onebit",
                                              "snappy",
                                              "lz4"};
  return names;
}

std::unique_ptr<const Codec> make_codec(const std::string& text, const std::string& where) {
  const auto refuse = [&](const std::string& advice) {
    throw UsageError(concat("unknown value '", text, "' (", where, "): ", advice));
  };
  const auto colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string numbers = colon == std::string::npos ? "" : text.substr(colon + 1);
  const auto plain = [&](auto make) -> std::unique_ptr<const Codec> {
    if (colon != std::string::npos) refuse(name + " takes no number");
    return make();
  };
  if (name == "none") return plain([] { return std::unique_ptr<const Codec>(); });
  if (name == "identity") return plain([] { return std::make_unique<Identity>(); });
  if (name == "fp16") return plain([] { return std::make_unique<Half>(Half::Format::fp16); });
  if (name == "bf16") return plain([] { return std::make_unique<Half>(Half::Format::bf16); });
  if (name == "terngrad") return plain([] { return std::make_unique<Stochastic>(Stochastic::terngrad()); });
  if (name == "onebit") return plain([] { return std::make_unique<OneBit>(); });
  if (name == "snappy") return plain([] { return std::make_unique<Lossless>(Lossless::Library::snappy); });
  if (name == "lz4") return plain([] { return std::make_unique<Lossless>(Lossless::Library::lz4); });
  if (name == "trunc") {
    const auto bits = whole(numbers);
    if (!bits) refuse("give the bits to cut off, as trunc:16, trunc:22, trunc:24");
    return std::make_unique<Truncation>(*bits);
  }
  if (name == "inceptionn" || name == "inceptionn-published") {
    const auto exponent = numbers.rfind("2^", 0) == 0 ? whole(std::string_view(numbers).substr(2)) : std::nullopt;
    if (!exponent) refuse("give the error bound as a power of two, as " + name + ":2^-10");
    return std::make_unique<InceptionnHalves>(
        name == "inceptionn" ? InceptionnMode::bounded : InceptionnMode::published, *exponent);
  }
  if (name == "qsgd") {
    const auto second = numbers.find(':');
    const auto bits = whole(std::string_view(numbers).substr(0, second));
    const auto bucket =
        second == std::string::npos ? std::nullopt : whole(std::string_view(numbers).substr(second + 1));
    if (!bits || !bucket || *bucket < 1) refuse("give bits and values per bucket, as qsgd:8:512");
    return std::make_unique<Stochastic>(Stochastic::qsgd(*bits, static_cast<std::size_t>(*bucket)));
  }
  std::vector<std::string> names;
  for (const std::string& n : codec_names()) names.push_back(n.substr(0, n.find(':')));
  const std::string near = nearest(name, names);
  refuse(concat(near.empty() ? "" : concat("did you mean ", near, "? "), "There are ", listed(), "."));
  return nullptr;  // not reached
}

}  // namespace laconic::compress
