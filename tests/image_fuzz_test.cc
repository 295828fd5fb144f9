// Files of images come from anywhere: kept ones, and damaged ones made of them, go through both decoders and all that
// training does with a picture. `LACONIC_FUZZ_SECONDS=300 fuzz_test --gtest_filter='ImageFuzz.*'` goes on for so long.
//
// tests/corpus/images/ holds files; what once went wrong belongs there too.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "data/photo_transform.h"
#include "tests/fuzz.h"
#include "tests/fuzz/targets.h"
#include "tests/image_files.h"

namespace laconic {
namespace {

std::vector<File> corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LACONIC_SOURCE "/tests/corpus/images"))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<File> all;
  for (const auto& path : paths) read_image_file(path.string(), all.emplace_back());
  return all;
}

/// So that damage goes further than to the first checksum.
void mend_png(File& file) {
  for (std::size_t at = 8; at + 12 <= file.size();) {
    const std::size_t length =
        std::size_t{file[at]} << 24 | std::size_t{file[at + 1]} << 16 | std::size_t{file[at + 2]} << 8 | file[at + 3];
    if (length > file.size() - at - 12) return;
    const auto crc = static_cast<std::uint32_t>(crc32_z(0, file.data() + at + 4, 4 + length));
    for (std::size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
}

/// Whether it is an image, for each decoder.
std::uint64_t read(const File& file, std::int64_t sample) {
  std::uint64_t good = 0;
  std::vector<float> out(3 * 12 * 12 + 1);
  for (const JpegDecoder decoder : {JpegDecoder::stb, JpegDecoder::libjpeg}) {
    if (decoder == JpegDecoder::libjpeg && !has_libjpeg()) continue;
    for (const bool crop : {false, true}) {
      std::fill(out.begin(), out.end(), 1e9f);
      try {
        PhotoTransform{
            {.size = 12, .augment = {.crop = crop, .flip = crop, .contrast = crop ? 0.5f : 0.0f}, .decoder = decoder}}(
            file, "fuzzed", 0, sample, out.data());
        ++good;
        EXPECT_LT(*std::max_element(out.begin(), out.end() - 1), 3.0f);
        EXPECT_GT(*std::min_element(out.begin(), out.end() - 1), -3.0f);
      } catch (const DataError& e) {
        EXPECT_EQ(std::string(e.what()).rfind("fuzzed ", 0), 0u) << e.what();
      }
      EXPECT_EQ(out.back(), 1e9f) << "written beside its place";
    }
  }
  return good;
}

TEST(ImageFuzz, AFileIsReadOrRefusedByItsName) {
  const std::vector<File> kept = corpus();
  ASSERT_GT(kept.size(), 10u);
  std::uint64_t good = 0, inputs = 0;
  for (const File& file : kept) good += read(file, 0) > 0, ++inputs;
  EXPECT_GT(good, inputs / 2);
  good = inputs = 0;
  fuzz(20'000, [&](Random& random) {
    const File& from = kept[random.below(static_cast<std::uint32_t>(kept.size()))];
    std::vector<std::byte> message(from.size());
    if (!from.empty()) std::memcpy(message.data(), from.data(), from.size());
    message = damaged(std::move(message), random);
    File file(message.size());
    if (!file.empty()) std::memcpy(file.data(), message.data(), file.size());
    if (random.below(4) > 0 && file.size() > 8 && file[1] == 'P') mend_png(file);
    if (random.below(2) == 0 && file.size() > 4 && file[0] == 0xFF) file.insert(file.end(), {0xFF, 0xD9});  // it ends
    file.shrink_to_fit();
    good += read(file, static_cast<std::int64_t>(random.below(1000))) > 0, ++inputs;
  });
  EXPECT_GT(good, inputs / 20);
  EXPECT_LT(good, inputs * 19 / 20);
}

}  // namespace

/// The file.
bool read_image(FuzzInput input) {
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(input.data());
  File file(bytes, bytes + input.size());
  if (file.size() > 8 && file[1] == 'P') mend_png(file);
  return read(file, 0) > 0;
}

}  // namespace laconic
