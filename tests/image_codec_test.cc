// Decoding of image files: what Pillow decodes, parts of pictures, and files that are nothing good.
#include "data/image_codec.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "tests/error_of.h"
#include "tests/image_files.h"
#include "tests/temp_folder.h"

namespace laconic {
namespace {

std::vector<JpegDecoder> decoders() {
  std::vector<JpegDecoder> all{JpegDecoder::stb};
  if (has_libjpeg()) all.push_back(JpegDecoder::libjpeg);
  return all;
}

TEST(ImageCodec, DecodesAsPillowDoes) {
  struct Case {
    const char *file, *expected;
    int most_of_stb;  // its inverse DCT and its interpolation of colours differ
    double mean_of_stb;
  };
  for (const Case& c : {Case{"whole.jpg", "whole.png", 4, 0.5},
                        {"half.jpg", "half.png", 60, 2.0},
                        {"across.jpg", "across.png", 60, 1.5},
                        {"edge.jpg", "edge.png", 4, 0.5},
                        {"eighth.jpg", "eighth.png", 4, 0.5},
                        {"progressive.jpg", "half.png", 60, 2.0},
                        {"grey.jpg", "grey.png", 3, 0.5},
                        {"cmyk.jpg", "cmyk.png", 12, 1.0},
                        {"palette.png", "palette_rgb.png", 0, 0}}) {
    const Image expected = decode_image(golden_image(c.expected), c.expected);
    for (const JpegDecoder decoder : decoders()) {
      const Image image = decode_image(golden_image(c.file), c.file, decoder);
      EXPECT_EQ(image.width, expected.width);
      const Difference d = difference(pixels_of(image), pixels_of(expected));
      const bool exact = decoder == JpegDecoder::libjpeg;
      EXPECT_LE(d.most, exact ? 1 : c.most_of_stb) << c.file << " " << to_string(decoder) << " " << d.mean;
      EXPECT_LE(d.mean, exact ? 0.05 : c.mean_of_stb) << c.file << " " << to_string(decoder) << " " << d.most;
    }
  }
}

TEST(ImageCodec, TakesTheUpperEightOfSixteenBits) {
  const Image image = decode_image(golden_image("sixteen.png"), "sixteen.png");
  ASSERT_EQ(image.width, 9);
  ASSERT_EQ(image.height, 7);
  for (int y = 0; y < 7; ++y)
    for (int x = 0; x < 9; ++x)
      for (int c = 0; c < 3; ++c) EXPECT_EQ(image.at(x, y)[c], (3 * x + 5 * y + 80 * c) % 256);
}

TEST(ImageCodec, ReadsPpmWithComments) {
  const std::string text = "P6 # made by hand\n# two\n2\t1 255\nabcdef";
  const Image image = decode_image(File(text.begin(), text.end()), "x");
  EXPECT_EQ(pixels_of(image), (std::vector<std::uint8_t>{'a', 'b', 'c', 'd', 'e', 'f'}));
}

TEST(ImageCodec, CmykNeedsNoMarkerOfAdobe) {
  File file = golden_image("cmyk.jpg");
  const std::string name = "Adobe";
  const auto marker = std::search(file.begin(), file.end(), name.begin(), name.end()) - 4;
  ASSERT_EQ(*(marker + 1), 0xEE);
  file.erase(marker, marker + 16);
  for (const JpegDecoder decoder : decoders())
    EXPECT_EQ(pixels_of(decode_image(file, "x", decoder)),
              pixels_of(decode_image(golden_image("cmyk.jpg"), "x", decoder)))
        << to_string(decoder);
}

/// Of the pictures at 1/scale of their size that libjpeg makes.
TEST(ImageCodec, PartsHaveTheBitsOfTheWhole) {
  for (const char* name :
       {"whole.jpg", "half.jpg", "across.jpg", "eighth.jpg", "progressive.jpg", "grey.jpg", "cmyk.jpg"})
    for (const int most_scale : {1, 2, 4, 8}) {
      const File file = golden_image(name);
      const ImageHeader header = read_image_header(file, name);
      const int w = header.width, h = header.height;
      Image whole, part;
      decode_image(file, header, name, {0, 0, w, h}, most_scale, default_jpeg_decoder(), whole);
      for (const Region r : {Region{0, 0, 1, 1},
                             {w - 1, h - 1, 1, 1},
                             {17, 33, 20, 9},
                             {40, 1, 80, h - 3},
                             {0, 20, w, 20},
                             {64, 16, 16, 16},
                             {33, 0, 50, h},
                             {w - 60, 3, 60, h - 3},
                             {90, h - 6, 33, 2}}) {
        decode_image(file, header, name, r, most_scale, default_jpeg_decoder(), part);
        const int s = part.scale, left = r.x / s, right = (r.x + r.width + s - 1) / s;
        ASSERT_EQ(s, whole.scale);
        for (int y = r.y / s; y < (r.y + r.height + s - 1) / s; ++y)
          ASSERT_EQ(std::memcmp(part.at(left, y), whole.at(left, y), static_cast<std::size_t>(3 * (right - left))), 0)
              << name << " 1/" << s << ": " << r.x << " " << r.y << " " << r.width << " " << r.height << " row " << y;
      }
    }
}

TEST(ImageCodec, ReducedPicturesAreMeansOfTheWhole) {
  if (!has_libjpeg()) GTEST_SKIP() << "this build has no libjpeg";
  const File file = jpeg_of(211, 133);
  const ImageHeader header = read_image_header(file, "x");
  const Image whole = decode_image(file, "x");
  for (const int scale : {2, 4, 8}) {
    Image reduced;
    decode_image(file, header, "x", {48, 24, 120, 80}, scale, JpegDecoder::libjpeg, reduced);
    EXPECT_EQ(reduced.scale, scale);
    EXPECT_EQ(reduced.width, (211 + scale - 1) / scale);
    EXPECT_LT(reduced.part.height, reduced.height);
    for (int y = 24 / scale; y < 104 / scale; ++y)
      for (int x = 48 / scale; x < 168 / scale; ++x)
        for (int c = 0; c < 3; ++c) {
          int sum = 0;
          for (int i = 0; i < scale; ++i)
            for (int j = 0; j < scale; ++j) sum += whole.at(x * scale + i, y * scale + j)[c];
          EXPECT_NEAR(reduced.at(x, y)[c], sum / (scale * scale), 6) << scale << ": " << x << ", " << y;
        }
  }
}

/// Decodes with everything there is; the sentence of the first.
std::string refusal(const File& file) {
  std::string said;
  for (const JpegDecoder decoder : decoders()) {
    const std::string text = error_of<DataError>([&] { decode_image(file, "dog.JPEG", decoder); });
    if (said.empty()) said = text;
  }
  return said;
}

void expect_refusal(const File& file, const std::string& part) {
  const std::string said = refusal(file);
  EXPECT_NE(said.find(part), std::string::npos) << (said.empty() ? "it was read" : said);
  EXPECT_EQ(said.rfind("dog.JPEG ", 0), 0u) << said;
}

File bytes(const std::string& text) { return {text.begin(), text.end()}; }

TEST(ImageCodec, NamesWhatIsNoImage) {
  expect_refusal({}, "is empty");
  expect_refusal(bytes("<html>404 not found</html>"), "is no JPEG, PNG or PPM");
  expect_refusal(bytes("GIF89a......................"), "is no JPEG, PNG or PPM");
  expect_refusal(bytes("P6"), "PPM");
  expect_refusal(bytes("P6 3 3 255\nabc"), "3 x 3 pixels by its header, which 14 bytes cannot hold");
  expect_refusal(bytes("P6 3 3 65535\nabcabcabcabc"), "not of 8 bits");
  expect_refusal(bytes("P6 0 3 255\nabcabcabcabc"), "is 0 x 3 pixels by its header");
  expect_refusal({0xFF, 0xD8, 0xFF}, "ends in the middle");
  expect_refusal({0xFF, 0xD8, 0xFF, 0xD9, 0, 2}, "has no size in its header");
}

TEST(ImageCodec, RefusesTablesOfTooManyCodes) {
  File file = golden_image("whole.jpg");
  std::size_t table = 0;
  for (std::size_t i = 0; table == 0; ++i)
    if (file[i] == 0xFF && file[i + 1] == 0xC4) table = i + 4;
  for (std::size_t i = 1; i <= 16; ++i) file[table + i] = 255;
  expect_refusal(file, "has a table of codes that is none");
}

TEST(ImageCodec, NamesWhatIsCut) {
  for (const char* name : {"half.jpg", "progressive.jpg", "photo.png", "sixteen.png"}) {
    const File file = golden_image(name);
    for (const std::size_t keep : {std::size_t{10}, std::size_t{30}, file.size() / 2, file.size() - 2}) {
      SCOPED_TRACE(name);
      EXPECT_NE(refusal(File(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(keep))).find("cut"),
                std::string::npos)
          << keep;
    }
  }
}

TEST(ImageCodec, AHeaderThatPromisesMoreThanTheFileHoldsTakesNoMemory) {
  File jpeg = golden_image("half.jpg");
  std::size_t frame = 0;
  for (std::size_t i = 0; frame == 0; ++i)
    if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0) frame = i + 5;
  const auto sized = [&](int height, int width) {
    jpeg[frame] = static_cast<std::uint8_t>(height >> 8), jpeg[frame + 1] = static_cast<std::uint8_t>(height);
    jpeg[frame + 2] = static_cast<std::uint8_t>(width >> 8), jpeg[frame + 3] = static_cast<std::uint8_t>(width);
    return jpeg;
  };
  expect_refusal(sized(65535, 65535), "65535 x 65535 pixels by its header, more than the 67,108,864");
  expect_refusal(sized(8000, 8000), "8000 x 8000 pixels by its header, which 2,018 bytes cannot hold");
  expect_refusal(sized(0, 10), "is 10 x 0 pixels");

  File png = golden_image("photo.png");
  const auto check = [&] {
    const auto crc = static_cast<std::uint32_t>(crc32_z(0, png.data() + 12, 17));
    for (int i = 0; i < 4; ++i) png[static_cast<std::size_t>(29 + i)] = static_cast<std::uint8_t>(crc >> (24 - 8 * i));
  };
  expect_refusal(
      [&] {
        File f = png;
        f[19] ^= 1;
        return f;
      }(),
      "has a wrong checksum at byte 8");
  png[18] = 0x20, png[22] = 0x1F;  // 8253 x 7979
  check();
  expect_refusal(png, "by its header, which its data cannot hold");
  png[16] = 0x7F;
  check();
  expect_refusal(png, "more than the 67,108,864 that are read");
}

TEST(ImageCodec, ReadsPicturesOfOddShapes) {
  for (const auto& [width, height] : {std::pair{1, 1}, {30000, 1}, {1, 30000}, {7, 3}})
    for (const JpegDecoder decoder : decoders()) {
      const Image image = decode_image(jpeg_of(width, height), "x", decoder);
      EXPECT_EQ(image.width, width);
      EXPECT_EQ(image.height, height);
      EXPECT_LT(difference(pixels_of(image), waves(width, height)).mean, 6);
    }
}

TEST(ImageCodec, RefusesAJpegWithThousandsOfScans) {
  File file = golden_image("progressive.jpg");
  std::size_t scan = file.size() - 2;
  while (!(file[scan] == 0xFF && file[scan + 1] == 0xDA)) --scan;
  const File last(file.begin() + static_cast<std::ptrdiff_t>(scan), file.end() - 2);
  for (int i = 0; i < 200; ++i) file.insert(file.end() - 2, last.begin(), last.end());
  expect_refusal(file, "has more than 100 scans");
}

TEST(ImageCodec, ReadsFilesAndNothingElse) {
  const TempFolder dir;
  File file;
  expect_error<DataError>([&] { read_image_file(dir.path(), file); }, {dir.path(), "is no file"});
  expect_error<DataError>([&] { read_image_file(dir / "none", file); }, {"none cannot be opened: No such file"});
  ASSERT_EQ(std::system(("mkfifo " + dir / "pipe").c_str()), 0);
  expect_error<DataError>([&] { read_image_file(dir / "pipe", file); }, {"pipe is no file"});
}

}  // namespace
}  // namespace laconic
