// groupq against its formulas, one value at a time.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compress/codecs.h"
#include "compress/cpu/groups.h"
#include "core/base/random.h"
#include "tests/error_of.h"

namespace laconic::compress {
namespace {

std::vector<float> group_values(std::size_t n) {
  Random random(3, Purpose::test, n);
  std::vector<float> x(n);
  for (std::size_t i = 0; i < n; ++i) x[i] = random.normal() * std::exp2(static_cast<float>(i / 40 % 7));
  return x;
}

std::vector<float> through_groups(const Codec& codec, const std::vector<float>& x, std::uint64_t step) {
  Bytes payload;
  codec.encode(slice(x), {.seed = 1, .step = step}, payload);
  std::vector<float> y(x.size());
  codec.decode(payload.slice(), slice(y));
  return y;
}

/// The levels of a group in units of its scale, ascending.
std::vector<double> slow_levels(int bits) {
  const int half = 1 << (bits - 2), last = (1 << (bits - 1)) - 1;
  std::vector<double> levels{0};
  for (int l = 1; l <= last; ++l) levels.push_back(levels.back() + (l <= half ? 1 : 2));
  for (double& v : levels) v /= 2.0 * last - half;
  return levels;
}

TEST(Groups, AValueBecomesOneOfTheTwoLevelsBesideItWithTheRightMean) {
  constexpr int kDraws = 2000;
  for (const auto& [bits, group] : {std::pair{5, 32}, {4, 16}, {2, 8}, {8, 256}}) {
    const auto codec = make_codec(concat("groupq:", bits, ":", group));
    const std::vector<float> x = group_values(256 + 70);
    const std::vector<double> levels = slow_levels(bits);
    std::vector<double> sum(x.size());
    for (int draw = 0; draw < kDraws; ++draw) {
      const std::vector<float> y = through_groups(*codec, x, static_cast<std::uint64_t>(draw));
      for (std::size_t i = 0; i < x.size(); ++i) sum[i] += double{y[i]};
      if (draw > 0) continue;
      for (std::size_t super = 0; super < x.size(); super += 256) {
        const std::size_t super_end = std::min(x.size(), super + 256);
        double largest = 0;
        for (std::size_t i = super; i < super_end; ++i) largest = std::max(largest, std::abs(double{x[i]}));
        const double unit = std::exp2(std::floor(std::log2(largest)) - 7);
        const double s = std::ceil(largest / unit) * unit;  // 8 bits of it
        for (std::size_t first = super; first < super_end; first += static_cast<std::size_t>(group)) {
          const std::size_t end = std::min(super_end, first + static_cast<std::size_t>(group));
          largest = 0;
          for (std::size_t i = first; i < end; ++i) largest = std::max(largest, std::abs(double{x[i]}));
          const double scale = std::ceil(255 * largest / s) * s / 255;
          for (std::size_t i = first; i < end; ++i) {
            const double a = std::abs(double{x[i]}) / scale, b = std::abs(double{y[i]}) / scale;
            const auto above = std::lower_bound(levels.begin(), levels.end(), a - 1e-6);
            ASSERT_NE(above, levels.end()) << bits << " bits, value " << i;
            const double below = above == levels.begin() ? 0 : *(above - 1);
            ASSERT_TRUE(std::abs(b - *above) < 1e-5 || std::abs(b - below) < 1e-5)
                << bits << " bits, value " << i << ": " << a << " became " << b;
            ASSERT_TRUE(b == 0 || std::signbit(x[i]) == std::signbit(y[i]));
          }
        }
      }
    }
    for (std::size_t i = 0; i < x.size(); ++i) {  // five deviations; no spacing is wider than a group's scale
      double scale = 0;
      const std::size_t first = i / static_cast<std::size_t>(group) * static_cast<std::size_t>(group);
      for (std::size_t j = first; j < std::min(x.size(), first + static_cast<std::size_t>(group)); ++j)
        scale = std::max(scale, std::abs(double{x[j]}));
      const double spacing = std::min(1.0, 2 / (2.0 * ((1 << (bits - 1)) - 1) - (1 << (bits - 2))));
      EXPECT_NEAR(sum[i] / kDraws, x[i], 5 * 0.5 * 1.1 * scale * spacing / std::sqrt(kDraws)) << bits << " bits, " << i;
    }
  }
}

TEST(Groups, APayloadLiesAsItsFormatSays) {
  std::vector<float> x(256, 0.0f);
  x[0] = 22, x[9] = -8,
  x[40] = 1.375f;  // levels 15 and 8 of group 0, level 15 of a group with a sixteenth of its scale
  Bytes payload;
  make_codec("groupq:5:32")->encode(slice(x), {}, payload);
  ASSERT_EQ(payload.size(), 2u + 8 + 160);
  std::uint16_t scale;
  std::memcpy(&scale, payload.data(), 2);
  EXPECT_EQ(std::bit_cast<float>(std::uint32_t{scale} << 16), 22.0f);
  EXPECT_EQ(payload.data()[2], std::byte{255});
  EXPECT_EQ(payload.data()[3], std::byte{16});  // 255/16, rounded up
  EXPECT_EQ(payload.data()[4], std::byte{0});
  std::uint32_t words[40], numbers[256];
  std::memcpy(words, payload.data() + 10, sizeof words);
  EXPECT_EQ(words[0] & 31, 15u) << "lane 0, row 0";
  EXPECT_EQ(words[1] >> 5 & 31, 8u | 16u) << "lane 1, row 1";
  cpu::unpack_lanes(payload.data() + 10, 5, numbers);
  EXPECT_EQ(numbers[0], 15u);
  EXPECT_EQ(numbers[9], 24u);
  EXPECT_GE(numbers[40], 14u);
}

TEST(Groups, EveryWidthComesBackFromItsLanes) {
  for (unsigned bits = 2; bits <= 8; ++bits) {
    std::uint32_t numbers[256], back[256];
    for (unsigned i = 0; i < 256; ++i) numbers[i] = (i * 37 + i / 7) & ((1u << bits) - 1);
    std::byte packed[256];
    cpu::pack_lanes(numbers, bits, packed);
    cpu::unpack_lanes(packed, bits, back);
    EXPECT_EQ(std::memcmp(numbers, back, sizeof back), 0) << bits;
  }
}

TEST(Groups, WhatIsNoNumberOrTooSmallOrVeryLarge) {
  const auto codec = make_codec("groupq:5:32");
  std::vector<float> x(600, 1.0f);
  x[300] = std::numeric_limits<float>::infinity();
  x[599] = std::numeric_limits<float>::max();
  const std::vector<float> y = through_groups(*codec, x, 1);
  for (std::size_t i = 0; i < 256; ++i) ASSERT_EQ(y[i], 1.0f);
  for (std::size_t i = 256; i < 512; ++i) ASSERT_TRUE(std::isnan(y[i])) << "is not hidden";
  for (std::size_t i = 512; i < 600; ++i) ASSERT_TRUE(std::isfinite(y[i]));
  EXPECT_NEAR(y[599], x[599], 0.01f * x[599]);
  for (const float v : through_groups(*codec, std::vector<float>(40, -1e-32f), 1)) ASSERT_EQ(v, 0);
}

TEST(Groups, AreOfEightToTwoHundredAndFiftySixValues) {
  const auto says = [](const std::string& text) { return error_of<UsageError>([&] { make_codec(text); }); };
  EXPECT_EQ(says("groupq:5"), "unknown value 'groupq:5' (`codec`): give bits and values per group, as groupq:5:32");
  EXPECT_EQ(says("groupq:9:32"), "groupq cannot use 9 bits: give 2 to 8, as groupq:5:32");
  EXPECT_EQ(says("groupq:5:48"),
            "a group of groupq has 8, 16, 32, 64, 128 or 256 values: choose another, as groupq:5:32");
}

}  // namespace
}  // namespace laconic::compress
