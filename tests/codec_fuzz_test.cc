// What comes from the network or a file may be anything: kept inputs, and damaged ones made of them, go through the
// readers of every codec. `LACONIC_FUZZ_SECONDS=300 fuzz_test --gtest_filter='CodecFuzz.*'` goes on for so long.
//
// tests/corpus/codec/ holds the inputs: [codec's name | "\n" | values : u16, little-endian | message]. What once went
// wrong belongs there too. `fuzz_test --gtest_also_run_disabled_tests --gtest_filter='*WriteTheCorpus*'` writes the
// rest.
#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>

#include "compress/codecs.h"
#include "compress/inceptionn/inceptionn.h"
#include "tests/each_isa.h"
#include "tests/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/temp_folder.h"
#include "tests/values_of.h"

namespace laconic::compress {
namespace {

using Message = std::vector<std::byte>;

/// One payload of INCEPTIONN's, which no codec's name stands for.
constexpr const char* kPayload = "inceptionn:2^-10, one payload";

struct Reader {
  bool adds_alike = false;  ///< its sums are those of decode and an addition to the bit, also encoded again
  std::unique_ptr<const Codec> codec{};
};

/// By the name of its codec. No codec: there is none, or not in this build.
Reader reader_named(const std::string& name) {
  Reader reader{.adds_alike = name.starts_with("inceptionn")};
  if (name == kPayload) reader.codec = std::make_unique<Inceptionn>(InceptionnMode::bounded, -10);
  if (reader.codec) return reader;
  try {
    reader.codec = make_codec(name);
  } catch (const UsageError&) {
  }
  return reader;
}

struct Input {
  std::string reader{};
  std::size_t values = 0;
  Message message{};
};

/// Empty if it does not begin like one.
std::optional<Input> input_from(FuzzInput bytes) {
  const auto end = std::find(bytes.begin(), bytes.end(), std::byte{'\n'});
  if (bytes.end() - end < 3) return std::nullopt;
  Input input{.message = Message(end + 3, bytes.end())};
  for (auto at = bytes.begin(); at != end; ++at) input.reader += static_cast<char>(*at);
  input.values = std::to_integer<std::size_t>(end[1]) | std::to_integer<std::size_t>(end[2]) << 8;
  return input;
}

std::vector<Input> corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LACONIC_CORPUS "/codec")) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<Input> all;
  for (const auto& path : paths) {
    const std::string bytes = file_text(path);
    if (auto input = input_from(std::as_bytes(std::span(bytes)))) all.push_back(std::move(*input));
  }
  return all;
}

/// The values of a message; nothing if it is refused.
using Decoded = std::optional<std::vector<float>>;

Decoded values_of(const Codec& codec, const Message& message, std::size_t n) {
  std::vector<float> y(n + 2, 7.0f);
  try {
    codec.decode(slice(std::as_const(message)), slice(y).sub(1, n));
  } catch (const DataError& e) {
    EXPECT_EQ(dynamic_cast<const UsageError*>(&e), nullptr) << e.what();
    return std::nullopt;
  }
  EXPECT_TRUE(y.front() == 7.0f && y.back() == 7.0f) << "written beside its place";
  return std::vector<float>(y.begin() + 1, y.end() - 1);
}

/// Reads an input with all kernels, and everything that reads it another way. Whether it is a message.
bool read(const Input& input) {
  const Reader reader = reader_named(input.reader);
  if (!reader.codec) return false;
  const auto decoded = [&] { return values_of(*reader.codec, input.message, input.values); };
  const Decoded first = decoded();
  if (reader.adds_alike)
    with_each_isa([&](const char* isa) {
      const Decoded again = decoded();
      EXPECT_EQ(again.has_value(), first.has_value()) << isa;
      if (first && again) {
        EXPECT_TRUE(same_bits(*first, *again)) << isa;
      }
    });

  std::vector<float> own(input.values);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = 0.01f * static_cast<float>(i % 100);
  std::vector<float> added = own;
  bool taken = true;
  try {
    reader.codec->decode_add(slice(input.message), slice(added));
  } catch (const DataError&) {
    taken = false;
  }
  EXPECT_EQ(taken, first.has_value());
  Bytes sum, expected;
  std::vector<float> mine = own;
  bool encoded = true;
  try {
    reader.codec->decode_add_encode(slice(input.message), slice(mine), {}, sum);
  } catch (const DataError&) {
    encoded = false;
  }
  if (!first || !taken) return false;
  EXPECT_TRUE(encoded || !reader.adds_alike);
  std::vector<float> both = own;
  bool numbers = true;
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += (*first)[i], numbers &= !std::isnan(both[i]);
  if (!numbers || !reader.adds_alike) return true;
  EXPECT_TRUE(same_bits(both, added));
  reader.codec->encode(slice(std::as_const(both)), {}, expected);
  EXPECT_EQ(sum.size(), expected.size());
  if (sum.size() == expected.size() && sum.size() > 0) {
    EXPECT_EQ(std::memcmp(sum.data(), expected.data(), sum.size()), 0);
  }
  return true;
}

TEST(CodecFuzz, AMessageIsReadAlikeByAllOrRefusedByAll) {
  const std::vector<Input> kept = corpus();
  ASSERT_GT(kept.size(), 30u) << "in " << LACONIC_CORPUS;
  std::uint64_t taken = 0, refused = 0;
  for (const Input& input : kept) read(input) ? ++taken : ++refused;
  fuzz(20'000, [&](Random& random) {
    Input input = kept[random.below(static_cast<std::uint32_t>(kept.size()))];
    if (random.below(8) == 0) input.values = random.below(1500);
    if (random.below(16) == 0) input.reader = kept[random.below(static_cast<std::uint32_t>(kept.size()))].reader;
    input.message = damaged(std::move(input.message), random);
    read(input) ? ++taken : ++refused;
  });
  EXPECT_GT(taken, 1000u);
  EXPECT_GT(refused, 1000u);
}

TEST(DISABLED_CodecFuzz, WriteTheCorpus) {
  std::filesystem::create_directories(LACONIC_CORPUS "/codec");
  Random random(1, Purpose::test);
  // The examples of all codecs, and other bounds and widths.
  std::vector<std::string> names{kPayload,   "inceptionn-published:2^-8", "inceptionn:2^3", "trunc:22",
                                 "trunc:24", "qsgd:3:64"};
  for (const CodecKind& kind : codecs()) names.push_back(kind.example);
  for (const std::string& name : names)
    for (const std::size_t n : {0, 1, 9, 77, 600, 1100}) {
      std::vector<float> x(n);
      const std::uint32_t kind = random.below(3);  // small ones, some of every class, some that are no numbers
      for (float& v : x) {
        v = random.normal() * std::exp2(-static_cast<float>(random.below(kind == 0 ? 4 : 20)) - (kind == 0 ? 8.0f : 0));
        if (kind == 2 && random.below(20) == 0) v = std::bit_cast<float>(random.bits());
      }
      Bytes message;
      const Reader reader = reader_named(name);
      if (!reader.codec) continue;
      reader.codec->encode(slice(x), {.seed = 1}, message);
      const char values[] = {static_cast<char>(n), static_cast<char>(n >> 8)};
      std::string file = name;
      std::replace_if(
          file.begin(), file.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '-');
      std::ofstream out(concat(LACONIC_CORPUS "/codec/", file, ".", n), std::ios::binary);
      out << name << '\n';
      out.write(values, sizeof values);
      out.write(reinterpret_cast<const char*>(message.data()), static_cast<std::streamsize>(message.size()));
    }
}

}  // namespace
}  // namespace laconic::compress

bool laconic::read_codec_message(FuzzInput input) {
  const auto message = compress::input_from(input);
  return message && compress::read(*message);
}
