#include "data/photo_transform.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/random.h"
#include "tests/image_files.h"

namespace laconic {
namespace {

Image image_of(const std::vector<std::uint8_t>& pixels, int width, int height) {
  return decode_image(ppm_of(pixels, width, height), "test");
}

std::vector<std::uint8_t> resized(const Image& image, const Resizing& r) {
  ResizeBuffers buffers;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(r.window.width * r.window.height * 3 + Image::kSlack));
  resize(image, r, buffers, out.data());
  return {out.begin(), out.end() - Image::kSlack};
}

Resizing whole(const Box& box, int width, int height) { return {box, width, height, {0, 0, width, height}}; }

TEST(Resize, GivesPillowsPixels) {
  const Image photo = decode_image(golden_image("photo.png"), "photo.png");
  for (const auto& [x, y, w, h, width, height] : {std::array{0, 0, 61, 43, 24, 20},
                                                  {0, 0, 61, 43, 70, 50},
                                                  {13, 7, 40, 31, 32, 32},
                                                  {20, 9, 8, 30, 24, 24},
                                                  {0, 0, 61, 43, 5, 3},
                                                  {60, 42, 1, 1, 8, 8}}) {
    const std::string name = concat("resize_", x, "_", y, "_", w, "_", h, "_", width, "_", height, ".png");
    const Box box{double(x), double(y), double(w), double(h)};
    EXPECT_EQ(
        difference(resized(photo, whole(box, width, height)), pixels_of(decode_image(golden_image(name), name))).most,
        0)
        << name;
  }
}

/// The definition, in doubles and in two dimensions at once, without rounding between.
std::vector<std::uint8_t> slowly(const Image& image, const Box& box, int width, int height) {
  std::vector<std::uint8_t> out;
  const auto weight = [](double start, double extent, int outputs, int o, int i) {
    const double scale = extent / outputs;
    if (i + 1 <= start || i >= start + extent) return 0.0;
    return std::max(0.0, 1 - std::abs(i + 0.5 - start - (o + 0.5) * scale) / std::max(1.0, scale));
  };
  for (int oy = 0; oy < height; ++oy)
    for (int ox = 0; ox < width; ++ox)
      for (int c = 0; c < 3; ++c) {
        double sum = 0, weights = 0;
        for (int y = 0; y < image.height; ++y)
          for (int x = 0; x < image.width; ++x) {
            const double w = weight(box.x, box.width, width, ox, x) * weight(box.y, box.height, height, oy, y);
            sum += w * image.at(x, y)[c], weights += w;
          }
        out.push_back(static_cast<std::uint8_t>(sum / weights + 0.5));
      }
  return out;
}

TEST(Resize, IsTheWeightedMeanOfItsDefinition) {
  Random random(3, Purpose::test);
  for (int round = 0; round < 60; ++round) {
    const int width = 1 + static_cast<int>(random.below(40)), height = 1 + static_cast<int>(random.below(40));
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(width * height * 3));
    for (auto& p : pixels) p = static_cast<std::uint8_t>(random.bits());
    const Image image = image_of(pixels, width, height);
    const double w = width * (0.05 + 0.95 * static_cast<double>(random.uniform())),
                 h = height * (0.05 + 0.95 * static_cast<double>(random.uniform()));
    const Box box{(width - w) * static_cast<double>(random.uniform()),
                  (height - h) * static_cast<double>(random.uniform()), w, h};
    const int to_width = 1 + static_cast<int>(random.below(30)), to_height = 1 + static_cast<int>(random.below(30));
    EXPECT_LE(difference(resized(image, whole(box, to_width, to_height)), slowly(image, box, to_width, to_height)).most,
              1)
        << width << " x " << height << " to " << to_width << " x " << to_height;
  }
}

TEST(Resize, AWindowHasThePixelsOfTheWholeAndNeedsOnlyItsSource) {
  const Image image = image_of(waves(90, 70), 90, 70);
  const Resizing all = whole({0, 0, 90, 70}, 40, 60);
  const std::vector<std::uint8_t> expected = resized(image, all);
  Resizing part = all;
  part.window = {11, 20, 13, 7};
  const Region need = part.source(90, 70);
  EXPECT_LT(need.width * need.height, 90 * 70 / 6);
  Image only = image;  // a picture of which nothing else is there
  only.resize(need);
  for (int y = 0; y < need.height; ++y)
    std::copy_n(image.at(need.x, need.y + y), 3 * need.width, only.at(need.x, need.y + y));
  const std::vector<std::uint8_t> out = resized(only, part);
  for (int y = 0; y < 7; ++y)
    for (int i = 0; i < 13 * 3; ++i)
      EXPECT_EQ(out[static_cast<std::size_t>(y * 39 + i)],
                expected[static_cast<std::size_t>(((20 + y) * 40 + 11) * 3 + i)]);
  only.part.width -= 1;
  EXPECT_THROW(resized(only, part), ShapeError);
}

TEST(Resize, KeepsOneColourAndTheSameSize) {
  const Image grey = image_of(std::vector<std::uint8_t>(300 * 2 * 3, 255), 300, 2);
  for (const std::uint8_t v : resized(grey, whole({0, 0, 300, 2}, 7, 9))) EXPECT_EQ(v, 255);
  const std::vector<std::uint8_t> pixels = waves(33, 21);
  EXPECT_EQ(resized(image_of(pixels, 33, 21), whole({0, 0, 33, 21}, 33, 21)), pixels);
  const Image line = image_of(waves(30000, 1), 30000, 1);
  EXPECT_EQ(resized(line, whole({0, 0, 30000, 1}, 4, 4)).size(), 48u);
}

}  // namespace
}  // namespace laconic
