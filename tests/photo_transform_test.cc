#include "data/photo_transform.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/base/random.h"
#include "tests/image_files.h"

namespace laconic {
namespace {

/// Values as pixels again, [size, size, 3].
std::vector<std::uint8_t> pixels_seen(const PhotoTransform::Options& o, const File& file, std::int64_t epoch = 0,
                                      std::int64_t sample = 0) {
  const auto n = static_cast<std::size_t>(o.size * o.size);
  std::vector<float> out(3 * n);
  PhotoTransform{o}(file, "test", epoch, sample, out.data());
  std::vector<std::uint8_t> pixels(3 * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t c = 0; c < 3; ++c)
      pixels[3 * i + c] = static_cast<std::uint8_t>((out[c * n + i] * o.std[c] + o.mean[c]) * 255 + 0.5f);
  return pixels;
}

TEST(PhotoTransform, EvaluatesAsTorchvisionDoes) {
  const File photo = golden_image("photo.png");
  for (const int size : {28, 49}) {
    const std::string name = concat("eval_", size, ".png");
    EXPECT_EQ(difference(pixels_seen({.size = size}, photo), pixels_of(decode_image(golden_image(name), name))).most,
              0);
  }
}

TEST(PhotoTransform, NormalisesInPyTorchsOrderOfOperations) {
  const std::uint8_t pixel[] = {10, 200, 255};
  std::vector<float> out(3);
  PhotoTransform{{.size = 1}}(ppm_of({pixel, pixel + 3}, 1, 1), "test", 0, 0, out.data());
  EXPECT_EQ(out[0], (10.0f / 255.0f - 0.485f) / 0.229f);
  EXPECT_EQ(out[1], (200.0f / 255.0f - 0.456f) / 0.224f);
  EXPECT_EQ(out[2], (255.0f / 255.0f - 0.406f) / 0.225f);
}

TEST(PhotoTransform, EvaluationMakesTheShorterSideAnEighthLonger) {
  const Resizing wide = evaluation_view(224, 500, 375);
  EXPECT_EQ(wide.height, 256);
  EXPECT_EQ(wide.width, 341);
  EXPECT_EQ(wide.window, (Region{58, 16, 224, 224}));  // round(58.5) is 58 in Python
  const Resizing tall = evaluation_view(224, 375, 500);
  EXPECT_EQ(tall.window, (Region{16, 58, 224, 224}));
  EXPECT_EQ(evaluation_view(28, 61, 43).height, 32);
}

TEST(PhotoTransform, ColoursAreAdjustedAsPillowDoes) {
  const Image photo = decode_image(golden_image("photo.png"), "photo.png");
  const char* kinds[] = {"brightness", "contrast", "saturation"};
  for (std::size_t kind = 0; kind < 3; ++kind)
    for (const char* factor : {"0.6", "1.4"}) {
      PhotoDraw draw;
      draw.factors[kind] = std::strtof(factor, nullptr);
      std::vector<std::uint8_t> pixels = pixels_of(photo);
      jitter_colors(draw, pixels.data(), pixels.size() / 3);
      const std::string name = concat("jitter_", kinds[kind], "_", factor, ".png");
      EXPECT_LE(difference(pixels, pixels_of(decode_image(golden_image(name), name))).most, 1) << name;
      EXPECT_LT(difference(pixels, pixels_of(decode_image(golden_image(name), name))).mean, 0.01) << name;
    }
}

TEST(PhotoTransform, JittersInTheOrderThatWasDrawn) {
  const std::vector<std::uint8_t> photo = waves(20, 20);
  PhotoDraw draw;
  draw.factors = {1.4f, 0.6f, 0.5f};
  std::vector<std::uint8_t> one = photo, other = photo, steps = photo;
  jitter_colors(draw, one.data(), 400);
  for (std::size_t kind = 0; kind < 3; ++kind) {
    PhotoDraw single;
    single.factors[kind] = draw.factors[kind];
    jitter_colors(single, steps.data(), 400);
  }
  EXPECT_EQ(one, steps);
  draw.order = {2, 1, 0};
  jitter_colors(draw, other.data(), 400);
  EXPECT_NE(one, other);
}

/// Kolmogorov and Smirnov: how far a sample is from being uniform over [low, high).
double from_uniform(std::vector<double> values, double low, double high) {
  std::sort(values.begin(), values.end());
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double u = (values[i] - low) / (high - low), n = static_cast<double>(values.size());
    most = std::max({most, u - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - u});
  }
  return most;
}

TEST(PhotoTransform, CropsHaveUniformAreasRatiosAndPlaces) {
  // A large square: nearly every first try fits, but for those of wide ratios and almost all of the area.
  const int side = 4000, n = 4000;
  std::vector<double> ratios, areas;
  std::vector<double> flips, places;
  for (int s = 0; s < n; ++s) {
    const PhotoDraw d = draw_photo(kRandomCropAndFlip, 5, 1, s, side, side);
    ASSERT_GE(d.crop.x, 0);
    ASSERT_LE(d.crop.x + d.crop.width, side);
    ASSERT_LE(d.crop.y + d.crop.height, side);
    const double ratio = static_cast<double>(d.crop.width) / d.crop.height;
    const double area = static_cast<double>(d.crop.width) * d.crop.height / (double{side} * side);
    ASSERT_NEAR(std::log(ratio), 0, std::log(4.0 / 3) + 0.01);
    if (area < 0.7) {  // these always fit: 0.7 * 4/3 < 1
      areas.push_back(area), ratios.push_back(std::log(ratio));
      places.push_back((d.crop.x + 0.5) / (side - d.crop.width + 1));
    }
    flips.push_back(d.flip);
  }
  const double bound = 1.95 / std::sqrt(static_cast<double>(areas.size()));  // one of 1,000 is further off
  EXPECT_LT(from_uniform(areas, 0.08, 0.7), bound);
  EXPECT_LT(from_uniform(ratios, -std::log(4.0 / 3), std::log(4.0 / 3)), bound);
  EXPECT_LT(from_uniform(places, 0, 1), bound);
  EXPECT_NEAR(std::count(flips.begin(), flips.end(), 1.0), n / 2, 130);
}

TEST(PhotoTransform, WhereNoCropFitsTheMiddleIsTaken) {
  const PhotoDraw wide = draw_photo(kRandomCropAndFlip, 1, 0, 0, 30000, 1);
  EXPECT_EQ(wide.crop, (Region{14999, 0, 1, 1}));
  const PhotoDraw tall = draw_photo(kRandomCropAndFlip, 1, 0, 0, 3, 9000);
  EXPECT_EQ(tall.crop, (Region{0, 4498, 3, 4}));
  EXPECT_EQ(draw_photo(kRandomCropAndFlip, 1, 0, 0, 1, 1).crop, (Region{0, 0, 1, 1}));
}

TEST(PhotoTransform, DependsOnSeedEpochAndSampleAlone) {
  const File file = jpeg_of(80, 60);
  const auto seen = [&](std::uint64_t seed, int epoch, int sample) {
    return pixels_seen(
        {.size = 32,
         .augment = {.crop = true, .flip = true, .brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f},
         .seed = seed},
        file, epoch, sample);
  };
  const auto first = seen(1, 2, 3);
  seen(1, 7, 9);
  EXPECT_EQ(seen(1, 2, 3), first);
  for (const auto& other : {seen(2, 2, 3), seen(1, 3, 3), seen(1, 2, 4)}) EXPECT_NE(other, first);
}

TEST(PhotoTransform, ShowsTheCropThatWasDrawn) {
  const std::vector<std::uint8_t> pixels = waves(150, 90);
  const Image image = decode_image(ppm_of(pixels, 150, 90), "test");
  for (int sample = 0; sample < 20; ++sample) {
    const PhotoDraw d = draw_photo(kRandomCropAndFlip, 9, 4, sample, 150, 90);
    std::vector<std::uint8_t> expected(24 * 24 * 3 + Image::kSlack);
    ResizeBuffers buffers;
    resize(image,
           {{double(d.crop.x), double(d.crop.y), double(d.crop.width), double(d.crop.height)}, 24, 24, {0, 0, 24, 24}},
           buffers, expected.data());
    const auto seen =
        pixels_seen({.size = 24, .augment = kRandomCropAndFlip, .seed = 9}, ppm_of(pixels, 150, 90), 4, sample);
    for (int y = 0; y < 24; ++y)
      for (int x = 0; x < 24; ++x)
        for (int c = 0; c < 3; ++c)
          ASSERT_EQ(seen[static_cast<std::size_t>((y * 24 + (d.flip ? 23 - x : x)) * 3 + c)],
                    expected[static_cast<std::size_t>((y * 24 + x) * 3 + c)]);
  }
}

TEST(PhotoTransform, DecodersAndReducedDecodingAgreeClosely) {
  if (!has_libjpeg()) GTEST_SKIP() << "this build has no libjpeg";
  const File file = jpeg_of(900, 700, 1);
  double most = 0;
  for (int sample = 0; sample < 12; ++sample) {  // to 40 x 40: most are decoded at a fraction of the size
    PhotoTransform::Options o{.size = 40, .augment = kRandomCropAndFlip, .decoder = JpegDecoder::libjpeg};
    const auto reduced = pixels_seen(o, file, 0, sample);
    o.decoder = JpegDecoder::stb;
    most = std::max(most, difference(reduced, pixels_seen(o, file, 0, sample)).mean);
  }
  EXPECT_LT(most, 2.5);
  EXPECT_GT(most, 0);
}

TEST(PhotoTransform, RefusesSizesThatMakeNoSense) {
  EXPECT_THROW(PhotoTransform{{.size = 0}}, UsageError);
  EXPECT_THROW(PhotoTransform{{.size = 100000}}, UsageError);
}

}  // namespace
}  // namespace laconic
