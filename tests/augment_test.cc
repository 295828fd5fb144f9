#include "data/image_dataset.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/base/error.h"

namespace laconic {
namespace {

/// A shape with the normalisation "mean 0, std 1/255", so that outputs are the pixel values themselves.
ImageDataset identity(int channels, int height, int width) {
  ImageDataset d;
  d.channels = channels, d.height = height, d.width = width;
  d.mean.assign(static_cast<std::size_t>(channels), 0.0f);
  d.std.assign(static_cast<std::size_t>(channels), 1.0f / 255.0f);
  return d;
}

TEST(ImageTransform, NormalisesEachChannelWithItsOwnConstants) {
  ImageDataset d = identity(2, 1, 256);
  d.mean = {0.4914f, 0.1307f};
  d.std = {0.2470f, 0.3081f};
  std::vector<std::uint8_t> image(512);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i);
  std::vector<float> out(512);
  ImageTransform(d, kNoAugment, 0)(image.data(), 0, 0, out.data());
  for (std::size_t c = 0; c < 2; ++c)
    for (std::size_t v = 0; v < 256; ++v) {
      const float expected = (static_cast<float>(v) / 255.0f - d.mean[c]) / d.std[c];  // PyTorch's order of operations
      EXPECT_EQ(out[c * 256 + v], expected);
    }
}

TEST(ImageTransform, ShowsEveryShiftAndFlipEquallyOftenAndNothingElse) {
  const int H = 5, W = 6, pad = 2;
  const ImageDataset d = identity(2, H, W);
  std::vector<std::uint8_t> image(2 * H * W);
  for (std::size_t i = 0; i < image.size(); ++i) image[i] = static_cast<std::uint8_t>(i + 1);
  const auto reference = [&](int dy, int dx, bool flip) {  // slow and obvious
    std::vector<int> out;
    for (int c = 0; c < 2; ++c)
      for (int y = 0; y < H; ++y)
        for (int x = 0; x < W; ++x) {
          const int sy = y + dy, sx = (flip ? W - 1 - x : x) + dx;
          out.push_back(
              sy < 0 || sy >= H || sx < 0 || sx >= W ? 0 : image[static_cast<std::size_t>((c * H + sy) * W + sx)]);
        }
    return out;
  };
  std::map<std::vector<int>, int> seen;
  for (int dy = -pad; dy <= pad; ++dy)
    for (int dx = -pad; dx <= pad; ++dx)
      for (const bool flip : {false, true}) seen[reference(dy, dx, flip)] = 0;
  ASSERT_EQ(seen.size(), 50u);
  const ImageTransform transform(d, {.pad = pad, .flip = true}, 7);
  std::vector<float> out(image.size());
  for (int sample = 0; sample < 5000; ++sample) {
    transform(image.data(), 4, sample, out.data());
    std::vector<int> rounded;
    for (const float v : out) rounded.push_back(static_cast<int>(v + 0.5f));
    ASSERT_EQ(seen.count(rounded), 1u) << "sample " << sample;
    ++seen[rounded];
  }
  for (const auto& [picture, count] : seen) EXPECT_NEAR(count, 100, 50);  // 5 standard deviations
}

TEST(ImageTransform, DependsOnSeedEpochAndSampleAlone) {
  const ImageDataset d = identity(1, 8, 8);
  std::vector<std::uint8_t> image(64);
  for (std::size_t i = 0; i < 64; ++i) image[i] = static_cast<std::uint8_t>(i + 1);
  const auto draws = [&](std::uint64_t seed, int epoch) {
    std::vector<float> all(64 * 20);
    const ImageTransform transform(d, kPadCropFlip, seed);
    for (int s = 19; s >= 0; --s) transform(image.data(), epoch, s, all.data() + 64 * s);  // in any order
    return all;
  };
  EXPECT_EQ(draws(1, 1), draws(1, 1));
  EXPECT_NE(draws(1, 1), draws(1, 2));
  EXPECT_NE(draws(1, 1), draws(2, 1));
}

TEST(ImageTransform, SurvivesAPadWiderThanTheImage) {
  const ImageDataset d = identity(1, 3, 3);
  const std::vector<std::uint8_t> image(9, 200);
  std::vector<float> out(9);
  const ImageTransform transform(d, {.pad = 10, .flip = true}, 0);
  for (int s = 0; s < 500; ++s) {
    std::fill(out.begin(), out.end(), -1.0f);
    transform(image.data(), 0, s, out.data());
    for (const float v : out) EXPECT_TRUE(v == 0.0f || std::abs(v - 200.0f) < 0.01f) << v;
  }
}

TEST(ImageTransform, RefusesConstantsThatDoNotFitTheChannels) {
  ImageDataset d = identity(3, 2, 2);
  d.mean.pop_back();
  EXPECT_THROW(ImageTransform(d, kNoAugment, 0), ShapeError);
}

}  // namespace
}  // namespace laconic
