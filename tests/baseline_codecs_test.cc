#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "compress/codecs.h"
#include "compress/cpu/isa.h"
#include "compress/codecs/draws.h"
#include "compress/codecs/value_bits.h"
#include "core/base/random.h"
#include "tests/error_of.h"
#include "tests/test_devices.h"
#include "tests/values_of.h"

namespace laconic::compress {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// All of this build, and some with other numbers.
std::vector<std::string> all_codecs() {
  std::vector<std::string> names{"trunc:22", "trunc:24", "trunc:5", "qsgd:4:7"};
  for (const CodecKind& kind : codecs()) try {
      make_codec(kind.example);
      names.push_back(kind.example);
    } catch (const UsageError&) {  // not in this build
    }
  return names;
}

std::vector<float> through(const std::string& name, const std::vector<float>& x, const Key& key = {}) {
  const auto codec = make_codec(name);
  Bytes payload;
  codec->encode(slice(x), key, payload);
  std::vector<float> y(x.size(), 7.0f);
  codec->decode(payload.slice(), slice(y));
  return y;
}

TEST(OneBit, ABucketIsTwoMeansAndABitAValue) {
  const std::vector<float> x{1, -2, 3, 0, -4, -0.0f, 2, 0, -6, 4};
  Bytes payload;
  make_codec("onebit")->encode(slice(x), {}, payload);
  const unsigned char bytes[] = {0x6E, 0xDB, 0xB6, 0x3F, 0, 0, 0x80, 0xC0, 0x12, 0x01};  // 10/7, -4; places 1, 4, 8
  ASSERT_EQ(payload.size(), sizeof bytes);
  EXPECT_EQ(std::memcmp(payload.data(), bytes, sizeof bytes), 0);
  const std::vector<float> y = through("onebit", x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], x[i] < 0 ? -4.0f : 10.0f / 7) << i;
}

TEST(OneBit, KeepsTheSumOfEveryBucketAndTakes1_125BitsAValue) {
  const std::vector<float> x = values_of(3, 5120), y = through("onebit", x);
  EXPECT_EQ(make_codec("onebit")->max_bytes(5120), 5120 * 9 / 8 / 8);
  for (std::size_t b = 0; b < x.size(); b += 512) {
    double before = 0, after = 0, scale = 0;
    for (std::size_t i = b; i < b + 512; ++i)
      before += double{x[i]}, after += double{y[i]}, scale += std::abs(double{x[i]});
    EXPECT_NEAR(before, after, 1e-5 * scale);
  }
}

/// Sends a thousand values for so many steps, and what it left out of them with the next ones. Each value drifts at a
/// rate of its own, up to 1 a step, beside the noise. Returns the most that what was sent of a value lags behind it.
double lag_of(const Codec& codec, int steps) {
  constexpr std::size_t n = 1000;
  std::vector<double> made(n), sent(n);
  std::vector<float> owed(n), y(n);
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> noise = values_of(static_cast<unsigned>(step) + 1, n);
    for (std::size_t i = 0; i < n; ++i) {
      const float gradient = noise[i] + static_cast<float>(i) / (n / 2) - 1;
      owed[i] += gradient, made[i] += double{gradient};
    }
    Bytes payload;
    codec.encode(slice(owed), {}, payload);
    codec.decode(payload.slice(), slice(y));
    for (std::size_t i = 0; i < n; ++i) owed[i] -= y[i], sent[i] += double{y[i]};
  }
  double lag = 0;
  for (std::size_t i = 0; i < n; ++i) lag = std::max(lag, std::abs(made[i] - sent[i]));
  return lag;
}

/// Sends nothing at all.
class Silent final : public Codec {
 public:
  std::size_t max_bytes(std::size_t) const override { return 0; }
  double expected_bytes(std::size_t) const override { return 0; }
  void encode(Slice<const float>, const Key&, Bytes&) const override {}
  void decode(Slice<const std::byte>, Slice<float> x) const override { std::fill(x.begin(), x.end(), 0.0f); }
};

TEST(OneBit, FedBackItNeverLagsFarBehind) {
  for (const char* codec : {"onebit", "signs:512"})
    for (const int steps : {50, 200, 800}) EXPECT_LT(lag_of(*make_codec(codec), steps), 20) << codec << ", " << steps;
  for (const int steps : {50, 200, 800}) EXPECT_GT(lag_of(Silent(), steps), 0.9 * steps) << steps;  // it can be seen
}

TEST(Signs, ABucketIsAMeanMagnitudeAndABitAValue) {
  const std::vector<float> x{1, -2, 3, 0, -4, -0.0f, 2, 0, -6, 4};
  Bytes payload;
  make_codec("signs:8")->encode(slice(x), {}, payload);
  const unsigned char bytes[] = {0, 0, 0xC0, 0x3F, 0x12, 0, 0, 0xA0, 0x40, 0x01};  // 12/8, places 1, 4; 5, place 8
  ASSERT_EQ(payload.size(), sizeof bytes);
  EXPECT_EQ(std::memcmp(payload.data(), bytes, sizeof bytes), 0);
  const std::vector<float> y = through("signs:8", x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], (x[i] < 0 ? -1 : 1) * (i < 8 ? 1.5f : 5.0f)) << i;
}

/// EF-signSGD, Algorithm 1, of several workers whose mean counts: p = lr g + e, delta = mean |p| sign(p), e = p -
/// delta. The rate and the number of workers are powers of two, so that it makes no difference whether e holds the rate
/// or not.
TEST(Signs, WithFeedbackDoWhatEfSignSgdSaysBitByBit) {
  constexpr std::size_t n = 700, N = 4, bucket = 256;
  constexpr float lr = 0.125f;
  const auto codec = make_codec("signs:256");
  std::vector<float> x = values_of(1, n), slow = x;
  std::vector<std::vector<float>> lost(N, std::vector<float>(n)), e = lost;
  for (unsigned step = 0; step < 30; ++step) {
    std::vector<float> sum(n), slow_sum(n);
    for (unsigned r = 0; r < N; ++r) {
      const std::vector<float> noise = values_of(10 + step * N + r, n);
      std::vector<float> g(n), p(n);
      for (std::size_t i = 0; i < n; ++i) g[i] = x[i] + noise[i], p[i] = lr * (slow[i] + noise[i]) + e[r][i];
      Bytes payload;
      codec->encode_with_feedback(slice(g), slice(lost[r]), {}, payload, false);
      codec->decode_add(payload.slice(), slice(sum));
      for (std::size_t b = 0; b < n; b += bucket) {
        const std::size_t end = std::min(n, b + bucket);
        double magnitudes = 0;
        for (std::size_t i = b; i < end; ++i) magnitudes += std::abs(double{p[i]});
        const auto mean = static_cast<float>(magnitudes / static_cast<double>(end - b));
        for (std::size_t i = b; i < end; ++i) {
          const float delta = p[i] < 0 ? -mean : mean;
          e[r][i] = p[i] - delta, slow_sum[i] += delta;
        }
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      x[i] -= lr / N * sum[i], slow[i] -= slow_sum[i] / N;
      ASSERT_EQ(x[i], slow[i]) << "step " << step << ", " << i;
    }
  }
  double left = 0;
  for (const float v : lost[0]) left = std::max(left, std::abs(double{v}));
  EXPECT_GT(left, 0.5) << "nothing was lost, the test tests nothing";
}

TEST(Signs, SayWhatABucketMayBe) {
  expect_error<UsageError>([] { make_codec("signs"); }, {"give values per bucket, as signs:512"});
  expect_error<UsageError>([] { make_codec("signs:0"); }, {"1 to 2^30 values"});
}

TEST(Codecs, KeepTheirPromisesOnLengths) {
  for (const std::string& name : all_codecs()) {
    const auto codec = make_codec(name);
    for (const std::size_t n : {0, 1, 7, 8, 127, 128, 129, 512, 513, 3000}) {
      const std::vector<float> x = values_of(1, n);
      Bytes payload;
      payload.append(5);  // it appends
      codec->encode(slice(x), {}, payload);
      ASSERT_LE(payload.size() - 5, codec->max_bytes(n)) << name;
      const Slice<std::byte> bytes = payload.slice().sub(5, payload.size() - 5);
      std::vector<float> y(n), sum = values_of(2, n);
      const std::vector<float> mine = sum;
      codec->decode(bytes, slice(y));
      codec->decode_add(bytes, slice(sum));
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(sum[i], mine[i] + y[i]) << name;
      if (n == 0) continue;
      std::vector<float> other(n + 600);
      EXPECT_THROW(codec->decode(bytes.first(bytes.size() - 1), slice(y)), DataError) << name;
      EXPECT_THROW(codec->decode(bytes, slice(other)), DataError) << name;
      EXPECT_THROW(codec->decode(bytes.first(0), slice(y)), DataError) << name;
    }
  }
}

/// Values that reach every branch of a codec.
std::vector<float> awkward(std::size_t n) {
  std::vector<float> x = values_of(1, n);
  for (std::size_t i = 0; i < n; i += 37) x[i] = std::ldexp(x[i], static_cast<int>(i % 300) - 150);
  for (std::size_t i = 5; i < n; i += 91) x[i] = i % 2 ? 0.0f : -0.0f;
  return x;
}

using CodecsOnCuda = CudaTest;

TEST_F(CodecsOnCuda, GiveTheBytesAndValuesOfTheCpu) {
  for (const std::string& name : all_codecs()) {
    const auto codec = make_codec(name);
    for (const std::size_t n : {0, 1, 7, 8, 31, 128, 129, 511, 513, 1025, 9000})
      for (const int kind : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message() << name << ", " << n << ", kind " << kind);
        std::vector<float> x = awkward(n);
        if (kind == 2 && n > 0) x[n / 2] = n % 2 ? kNan : -kInf;
        const std::size_t shift = static_cast<std::size_t>(kind) % 2;
        const Key key{.seed = 3, .step = 7, .operation = 1, .hop = 2, .rank = 4};
        Bytes payload, on_cuda(kCuda);
        payload.append(shift), on_cuda.append(shift);
        codec->encode(slice(x), key, payload);
        codec->encode(Placed(x, kCuda, shift), key, on_cuda);
        ASSERT_EQ(host_values(on_cuda.slice().sub(shift, on_cuda.size() - shift)),
                  host_values(payload.slice().sub(shift, payload.size() - shift)));
        const Slice<std::byte> bytes = payload.slice().sub(shift, payload.size() - shift),
                               there = on_cuda.slice().sub(shift, on_cuda.size() - shift);
        std::vector<float> y(n, 7.0f), sum = values_of(2, n);
        const Placed<float> y_cuda(y, kCuda, shift), sum_cuda(sum, kCuda, shift);
        const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
          return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
        };
        codec->decode(bytes, slice(y));
        codec->decode(there, y_cuda);
        EXPECT_TRUE(same(host_values(y_cuda.slice()), y));
        codec->decode_add(bytes, slice(sum));
        codec->decode_add(there, sum_cuda);
        if (kind < 2) {
          EXPECT_TRUE(same(host_values(sum_cuda.slice()), sum));
        }
        Bytes again, again_cuda(kCuda);
        codec->decode_add_encode(bytes, slice(sum), key, again);
        codec->decode_add_encode(there, sum_cuda, key, again_cuda);
        if (kind < 2) {
          EXPECT_EQ(host_values(again_cuda.slice()), host_values(again.slice()));
        }
        if (n == 0) continue;
        EXPECT_THROW(codec->decode(there.first(there.size() - 1), y_cuda), DataError);
        EXPECT_THROW(codec->decode(there.first(0), y_cuda), DataError);
      }
  }
}

/// Arithmetic on a GPU makes the NaN 0x7FFFFFFF, the CPU's keeps its operand's or makes a negative one.
TEST(Codecs, WhatTheyComputeIsOneNaN) {
  const auto bits = [](float v) { return std::bit_cast<std::uint32_t>(v); };
  for (const Device device : test_devices())
    for (const char* name : {"onebit", "qsgd:8:10", "terngrad"}) {
      SCOPED_TRACE(testing::Message() << name << " on " << device);
      const auto codec = make_codec(name);
      std::vector<std::byte> payloads[2];
      for (const bool other : {false, true}) {
        std::vector<float> x = values_of(1, 30);
        x[12] = std::bit_cast<float>(other ? 0x7FFFFFFFu : 0x7FC00000u);
        Bytes payload(device);
        codec->encode(Placed(x, device), {}, payload);
        payloads[other] = host_values(payload.slice());
      }
      EXPECT_EQ(payloads[0], payloads[1]);
      if (name[0] == 'o') continue;  // its numbers come out as they are
      for (const std::uint32_t scale : {0x7FFFFFFFu, 0x7FC00000u, 0xFFC00001u, 0x7F800000u}) {
        std::vector<std::byte> payload = payloads[0];
        std::memcpy(payload.data(), &scale, sizeof scale);
        payload[4] = std::byte{0x80};  // a negative level 0
        const std::vector<float> y(30);
        const Placed<float> there(y, device);
        codec->decode(Placed(payload, device), there);
        for (const float v : host_values(there.slice()))
          ASSERT_TRUE(!std::isnan(v) || bits(v) == 0x7FC00000u) << bits(v);
      }
    }
}

TEST(Codecs, SurviveRandomBytes) {
  std::mt19937 random(3);
  for (const std::string& name : all_codecs()) {
    const auto codec = make_codec(name);
    for (int round = 0; round < 2000; ++round) {
      const std::size_t n = random() % 200;
      const std::size_t bytes = round % 2 ? codec->max_bytes(n) : random() % 500;
      std::vector<std::byte> payload(bytes);  // of exactly this size, for the address sanitizer
      for (std::byte& b : payload) b = static_cast<std::byte>(random());
      std::vector<float> y(n);
      try {
        codec->decode(slice(std::as_const(payload)), slice(y));
      } catch (const DataError&) {
      }
    }
  }
}

TEST(Codecs, SameKeySameBytesAndOthersOnlyWhereTheyDrawAtRandom) {
  const std::vector<float> x = values_of(1, 1000);
  const Key keys[] = {{.seed = 1}, {.step = 1}, {.operation = 1}, {.hop = 1}, {.rank = 1}};
  for (const std::string& name : all_codecs()) {
    const bool random =
        name.rfind("qsgd", 0) == 0 || name == "terngrad" || name == "natural" || name.rfind("groupq", 0) == 0;
    const std::vector<float> first = through(name, x);
    EXPECT_EQ(first, through(name, x)) << name;
    for (const Key& key : keys) EXPECT_EQ(first != through(name, x, key), random) << name;
  }
}

TEST(Codecs, LosslessOnesGiveBackEveryBit) {
  std::vector<float> x = values_of(1, 5000);
  x[1] = kNan, x[2] = -kInf, x[3] = -0.0f, x[4] = std::numeric_limits<float>::denorm_min();
  std::fill(x.begin() + 1000, x.begin() + 3000, 0.0f);
  for (const std::string& name : all_codecs()) {
    if (name != "snappy" && name != "lz4" && name != "identity") continue;
    const std::vector<float> y = through(name, x);
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << name;
  }
}

#ifdef LACONIC_ZFP
TEST(Zfp, KeepsItsBoundAndLeavesAloneWhatIsNotFinite) {
  for (const double tolerance : {1.0, 1e-1, 1e-3, 1e-5}) {
    const std::string name = concat("zfp:", tolerance);
    for (const float scale : {1e-4f, 1.0f, 100.0f})
      for (const std::size_t n : {1, 3, 4, 5, 1000}) {
        std::vector<float> x = values_of(1, n);
        for (float& v : x) v *= scale;
        const std::vector<float> y = through(name, x);
        // Beside the bound there is the rounding of a float.
        for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], x[i], tolerance + 1e-6 * std::abs(x[i])) << name;
      }
    std::vector<float> x = values_of(1, 100);
    x[7] = kNan, x[9] = -kInf;
    const std::vector<float> y = through(name, x);
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0) << name;
  }
  // Its tolerance is no bound.
  const std::vector<float> four{0, -0.48f, -0.42f, -0.49f}, back = through("zfp:1", four);
  for (std::size_t i = 0; i < four.size(); ++i) EXPECT_NEAR(back[i], four[i], 1.4375);
  std::vector<float> small(1000, 1e-5f);
  Bytes payload;
  make_codec("zfp:0.001")->encode(slice(small), {}, payload);
  EXPECT_LT(payload.size(), 100u) << "a bit for four values below the bound";
  for (const char* text : {"zfp:", "zfp:0", "zfp:-1", "zfp:x", "zfp:nan", "zfp:1:2"})
    EXPECT_THROW(make_codec(text), UsageError) << text;
}
#endif

TEST(Truncation, ClearsTheLowBits) {
  std::mt19937 random(4);
  std::vector<float> x(1000);
  for (float& v : x) v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  for (const unsigned cut : {1u, 5u, 16u, 22u, 24u, 31u}) {
    const std::vector<float> y = through("trunc:" + std::to_string(cut), x);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(std::bit_cast<std::uint32_t>(y[i]), std::bit_cast<std::uint32_t>(x[i]) >> cut << cut) << cut;
  }
}

// ------------------------------------------------------------------------------------------------- floats of 2 bytes

constexpr float kNoExponent = 32768;  // as the largest value: the others are divided by 1

/// The halves of values beside one that asks for no exponent.
std::vector<std::uint16_t> halves(const std::vector<float>& x) {
  constexpr std::size_t kBeside = kHalvesOfAnExponent - 1;
  const auto codec = make_codec("fp16");
  std::vector<std::uint16_t> all;
  for (std::size_t first = 0; first < x.size(); first += kBeside) {
    const std::size_t count = std::min(kBeside, x.size() - first);
    std::vector<float> block{kNoExponent};
    block.insert(block.end(), x.begin() + static_cast<std::ptrdiff_t>(first),
                 x.begin() + static_cast<std::ptrdiff_t>(first + count));
    Bytes payload;
    codec->encode(slice(std::as_const(block)), {}, payload);
    EXPECT_EQ(payload.data()[payload.size() - 1], std::byte{0});
    all.resize(first + count);
    std::memcpy(all.data() + first, payload.data() + 2, 2 * count);
  }
  return all;
}

TEST(Fp16, EveryHalfComesBackAndValuesBetweenTwoGoToTheNearer) {
  std::vector<std::uint16_t> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<std::byte> payload(make_codec("fp16")->max_bytes(all.size()));  // exponents of 0
  std::memcpy(payload.data(), all.data(), 2 * all.size());
  std::vector<float> x(all.size());
  make_codec("fp16")->decode(slice(std::as_const(payload)), slice(x));
  const std::vector<std::uint16_t> back = halves(x);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::isnan(x[i])) {
      ASSERT_EQ(back[i], i | 0x200);
    } else {
      ASSERT_EQ(back[i], i);
    }
  }
  EXPECT_EQ(x[1], 0x1p-24f);
  EXPECT_EQ(x[0x3C00], 1.0f);
  for (std::size_t i = 0; i + 1 <= 0x7BFE; ++i) {  // all finite ones above zero and their successors
    const float half_way = 0.5f * (x[i] + x[i + 1]);
    const std::vector<float> between{std::nextafter(half_way, 0.0f), half_way, std::nextafter(half_way, kInf)};
    const std::vector<std::uint16_t> to = halves(between);
    ASSERT_EQ(to[0], i);
    ASSERT_EQ(to[1], i % 2 ? i + 1 : i);
    ASSERT_EQ(to[2], i + 1);
  }
  EXPECT_EQ(halves({65519.996f, -65519.996f}), (std::vector<std::uint16_t>{0x7BFF, 0xFBFF}));
}

TEST(Fp16, TheLargestMagnitudeOfEach4096IsBroughtBelowInfinity) {
  const auto exponent_of = [](float largest) {
    const std::vector<float> x{largest / 3, -largest};
    Bytes payload;
    make_codec("fp16")->encode(slice(x), {}, payload);
    return static_cast<std::int8_t>(payload.data()[payload.size() - 1]);
  };
  EXPECT_EQ(exponent_of(32768.0f), 0);
  EXPECT_EQ(exponent_of(65519.996f), 0) << "rounds to 65504";
  EXPECT_EQ(exponent_of(65520.0f), 1) << "would round to 65536";
  EXPECT_EQ(exponent_of(1.0f), -15);
  EXPECT_EQ(exponent_of(1e-38f), -100);
  EXPECT_EQ(exponent_of(3e38f), 112);
  EXPECT_EQ(exponent_of(0), 0);
  EXPECT_EQ(exponent_of(kInf), 0);
  EXPECT_EQ(exponent_of(kNan), 0);

  // Values that differ by magnitudes from block to block keep 11 bits each.
  std::vector<float> x = values_of(5, 3 * kHalvesOfAnExponent + 100);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], i / kHalvesOfAnExponent == 1 ? 40 : -40);
  const std::vector<float> y = through("fp16", x);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_LE(std::abs(y[i] - x[i]), std::abs(x[i]) * 0x1p-11f) << i;
  EXPECT_EQ(make_codec("fp16")->max_bytes(x.size()), 2 * x.size() + 4);
}

TEST(Fp16, NoValueIsFurtherOffThanAPlainHalf) {
  for (const float size : {1e-9f, 1e-5f, 1.0f, 6e3f}) {
    std::vector<float> x = values_of(6, 5000);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= size * std::exp2(-static_cast<float>(i % 40));
    const std::vector<float> y = through("fp16", x);
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(std::abs(y[i] - x[i]), std::abs(float_of(fp16_of(x[i])) - x[i])) << size << " " << i;
  }
}

/// As a ring has it: each rank adds its own values to what came, and passes the sum on.
TEST(Codecs, SumsOf64GradientsOfTenThousandStayFinite) {
  constexpr int kRanks = 64;
  constexpr std::size_t kValues = 5000;
  for (const std::string& name : all_codecs()) {
    SCOPED_TRACE(name);
    const auto codec = make_codec(name);
    std::vector<float> sum(kValues), exact(kValues);
    for (int r = 0; r < kRanks; ++r) {
      std::vector<float> x = values_of(r, kValues);
      for (std::size_t i = 0; i < kValues; ++i) {
        const float largest = i % 3 == 0 ? 1e4f : 1;  // rising to 640,000 of one sign, and small ones beside them
        x[i] = largest * std::abs(x[i]);
        exact[i] += x[i];
      }
      Bytes payload;
      codec->encode(slice(std::as_const(sum)), {.step = 1, .hop = static_cast<std::uint32_t>(r)}, payload);
      codec->decode_add(payload.slice(), slice(x));
      sum = x;
    }
    sum = through(name, sum);
    ASSERT_TRUE(std::ranges::all_of(sum, [](float v) { return std::isfinite(v); }));
    if (name != "fp16") continue;
    for (std::size_t i = 0; i < kValues; ++i) ASSERT_NEAR(sum[i], exact[i], kRanks * 0x1p-11 * double{exact[i]}) << i;
  }
}

TEST(Fp16, TheProcessorsConversionIsOurs) {
  std::vector<float> x(1 << 20);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(i << 12 | (i * 2654435761u >> 20 & 0xFFF)));
  for (float& v : x)
    if (std::isfinite(v) && std::abs(v) >= 65520) v = 65519;  // would ask for an exponent
  const std::vector<std::uint16_t> with = halves(x);
  cpu::avx2_allowed = false;
  const std::vector<std::uint16_t> without = halves(x);
  cpu::avx2_allowed = true;
  EXPECT_EQ(with, without);
}

TEST(Bf16, GoesToTheNearerAndTiesToEven) {
  const auto back = through("bf16", {1.0f, 1.00390625f, 1.01171875f, 1.004f, -3.1415926f, kInf, 3.4e38f});
  EXPECT_EQ(back, (std::vector<float>{1.0f, 1.0f, 1.015625f, 1.0078125f, -3.140625f, kInf, kInf}));
  EXPECT_TRUE(std::isnan(through("bf16", {kNan})[0]));
  EXPECT_TRUE(std::isnan(through("bf16", {std::bit_cast<float>(0x7F800001u)})[0]));
}

// -------------------------------------------------------------------------------------------------- rounding at random

TEST(Qsgd, TakesOneOfTheLevelsBesideAndTheRightOneOnAverage) {
  const std::vector<float> x{1.0f, -0.3f, 0.01f, 0.0f, -0.999f, 0.123f};
  std::vector<double> sum(x.size());
  constexpr int kDraws = 20000, kLevels = 7;
  for (int d = 0; d < kDraws; ++d) {
    const std::vector<float> y = through("qsgd:4:6", x, {.step = static_cast<std::uint64_t>(d)});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = kLevels * std::abs(static_cast<double>(x[i])),
                   level = kLevels * std::abs(static_cast<double>(y[i]));
      ASSERT_NEAR(level, std::round(level), 1e-5);
      ASSERT_LT(std::abs(level - exact), 1.0);
      ASSERT_FALSE(y[i] * x[i] < 0);
      sum[i] += static_cast<double>(y[i]);
    }
  }
  // Five deviations of a mean of so many draws of a level's width.
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(sum[i] / kDraws, x[i], 5 * 0.5 / kLevels / std::sqrt(kDraws));
}

TEST(Qsgd, WhatIsNoNumberSpoilsItsBucketOnly) {
  std::vector<float> x(30, 0.5f);
  x[12] = kNan, x[25] = kInf;
  const std::vector<float> y = through("qsgd:8:10", x);
  for (std::size_t i = 0; i < 10; ++i) EXPECT_FLOAT_EQ(y[i], 0.5f);
  for (std::size_t i = 10; i < 30; ++i) EXPECT_TRUE(std::isnan(y[i]));
  EXPECT_EQ(through("qsgd:8:10", {0.0f, -0.0f, 1e-38f}), (std::vector<float>{0, 0, 0}));
}

TEST(TernGrad, HasThreeValuesAndClips) {
  std::vector<float> x = values_of(1, 4000);
  x[7] = 100.0f;  // clipped: it would drown the others
  const std::vector<float> y = through("terngrad", x);
  double sum = 0, squares = 0;
  for (const float v : x) sum += static_cast<double>(v), squares += static_cast<double>(v) * v;
  const double mean = sum / 4000, deviation = std::sqrt(squares / 4000 - mean * mean);
  const float scale = y[7];
  EXPECT_NEAR(scale, 2.5 * deviation, 1e-4);
  int zeros = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_TRUE(y[i] == 0.0f || std::abs(y[i]) == scale);
    ASSERT_FALSE(y[i] * x[i] < 0);
    zeros += y[i] == 0.0f;
  }
  EXPECT_GT(zeros, 2000);
  EXPECT_LT(zeros, 3600);
}

TEST(TernGrad, PartsOfASumThatShareAScaleHaveItsLevels) {
  const auto codec = make_codec("terngrad");
  ASSERT_TRUE(codec->shares_scale());
  std::vector<float> parts[] = {values_of(1, 1000), values_of(2, 1000)};
  for (float& v : parts[1]) v *= 4;
  for (const Device device : test_devices()) {
    float scale = 0;
    for (const auto& part : parts) {
      const float own = codec->scale_of(Placed(part, device));
      EXPECT_EQ(own, codec->scale_of(slice(part))) << device;
      scale = std::max(scale, own);
    }
    EXPECT_EQ(scale, codec->scale_of(slice(parts[1])));
    std::vector<double> mean(1000);
    constexpr int kSteps = 400;
    for (int step = 0; step < kSteps; ++step) {
      Bytes payload(device);
      const Key key{.step = static_cast<std::uint64_t>(step), .scale = scale};
      codec->encode(Placed(parts[0], device), key, payload);
      const Placed<float> came(std::vector<float>(1000), device);
      codec->decode(payload.slice(), came);
      const std::vector<float> y = host_values(came.slice());
      for (std::size_t i = 0; i < y.size(); ++i) {
        ASSERT_TRUE(y[i] == 0.0f || std::abs(y[i]) == scale) << device;
        mean[i] += double{y[i]} / kSteps;
      }
    }
    // Each is right in expectation: its deviation over steps is at most half the scale.
    for (std::size_t i = 0; i < mean.size(); ++i)
      EXPECT_NEAR(mean[i], parts[0][i], 4.5 * scale / 2 / std::sqrt(kSteps));
    parts[0][5] = kNan;
    EXPECT_TRUE(std::isnan(codec->scale_of(Placed(parts[0], device)))) << device;
    parts[0][5] = 0;
  }
  EXPECT_FALSE(make_codec("qsgd:8:512")->shares_scale());
}

TEST(Draws, ArePhiloxByKeyAndIndex) {
  const Key key{.seed = 0x123456789ABCDEFull, .step = 0x100000003ull, .operation = 4, .hop = 5, .rank = 6};
  std::uint32_t numbers[Draws::kBlock];
  Draws(key).draw(9, numbers);
  const auto mixed = philox({0x89ABCDEFu, 0x01234567u, static_cast<std::uint32_t>(Purpose::codec), 4}, {5, 6});
  for (std::uint32_t l = 0; l < 32; ++l) {
    const auto block = philox({9 * 32 + l, 3, 1, mixed[2]}, {mixed[0], mixed[1]});
    for (std::size_t w = 0; w < 4; ++w) ASSERT_EQ(numbers[w * 32 + l], block[w]);
  }
}

TEST(Natural, IsSignAndExponentAndOnAverageTheValue) {
  const std::vector<float> x{1.5f, -0.3f, 0x1p-126f, 0x1.8p-127f, 0.0f, -1024.0f, 3.9f, 0x1.1p100f};
  std::vector<double> sum(x.size());
  constexpr int kDraws = 20000;
  for (int d = 0; d < kDraws; ++d) {
    const std::vector<float> y = through("natural", x, {.step = static_cast<std::uint64_t>(d)});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float below = std::abs(x[i]) < 0x1p-126f ? 0 : std::exp2(std::floor(std::log2(std::abs(x[i]))));
      const float above = below == 0 ? 0x1p-126f : 2 * below;
      ASSERT_EQ(std::signbit(y[i]), std::signbit(x[i]));
      if (x[i] == 0) { ASSERT_EQ(y[i], 0); }
      ASSERT_TRUE(std::abs(y[i]) == below || std::abs(y[i]) == above) << x[i] << " became " << y[i];
      sum[i] += static_cast<double>(y[i]);
    }
  }
  for (const std::size_t exact : {2, 4, 5}) EXPECT_EQ(sum[exact], double{x[exact]} * kDraws);
  for (std::size_t i = 0; i < x.size(); ++i)  // five deviations
    EXPECT_NEAR(sum[i] / kDraws, x[i], 5 * 0.5 * std::max(std::abs(double{x[i]}), 0x1p-126) / std::sqrt(kDraws));
  Bytes payload;
  make_codec("natural")->encode(slice(std::vector<float>{1.0f, -2.0f}), {}, payload);
  const unsigned char bytes[] = {0x7F, 0x00, 0x03};  // 127, then 256 + 128, 9 bits each
  ASSERT_EQ(payload.size(), sizeof bytes);
  EXPECT_EQ(std::memcmp(payload.data(), bytes, sizeof bytes), 0);
  EXPECT_EQ(through("natural", {-kInf, kInf}), (std::vector<float>{-kInf, kInf}));
  EXPECT_TRUE(std::isinf(through("natural", {kNan})[0])) << "is not hidden";
}

// ------------------------------------------------------------------------------------------------------------- by name

TEST(MakeCodec, SaysWhatIsWrongWithAName) {
  const auto says = [](const std::string& text) { return error_of<UsageError>([&] { make_codec(text); }); };
  EXPECT_EQ(make_codec("none"), nullptr);
  EXPECT_EQ(
      says("inceptoin:2^-10"),
      "unknown value 'inceptoin:2^-10' (`codec`): did you mean inceptionn? There are none, identity, fp16, bf16, "
      "trunc:BITS, inceptionn:2^E, inceptionn-published:2^E, inceptionn:rel:2^E, "
      "qsgd:BITS:BUCKET, terngrad, groupq:BITS:GROUP, natural, onebit, signs:BUCKET, snappy, lz4, zfp:TOLERANCE.");
  EXPECT_EQ(says("inceptionn:10"),
            "unknown value 'inceptionn:10' (`codec`): give the error bound as a power of two, as inceptionn:2^-10");
  EXPECT_EQ(says("inceptionn-published"),
            "unknown value 'inceptionn-published' (`codec`): give the error bound as a power of two, as "
            "inceptionn-published:2^-10");
  EXPECT_EQ(says("fp16:3"), "unknown value 'fp16:3' (`codec`): fp16 takes no number");
  EXPECT_EQ(says("qsgd:8"), "unknown value 'qsgd:8' (`codec`): give bits and values per bucket, as qsgd:8:512");
  EXPECT_EQ(says("qsgd:1:512"), "qsgd cannot use 1 bits: give 2 to 16, as qsgd:8:512");
  EXPECT_EQ(says("trunc:32"), "a float cannot lose 32 of its 32 bits (trunc): cut off 1 to 31, as trunc:16");
  for (const char* text : {"trunc:", "trunc:16x", "qsgd:8:0", "qsgd:8:-1", "qsgd::", "inceptionn:2^",
                           "inceptionn:2^-999", "", ":", "qsgd:8:512:1"})
    EXPECT_NE(says(text), "") << text;
}

#ifndef LACONIC_ZFP
TEST(MakeCodec, SaysThatTheBuildLacksZfp) {
  EXPECT_EQ(error_of<UsageError>([] { make_codec("zfp:0.1"); }),
            "this build has no zfp (`codec`): install libzfp-dev, then configure and build again");
}
#endif

#ifndef LACONIC_SNAPPY
TEST(MakeCodec, SaysWhatTheBuildLacks) {
  EXPECT_EQ(error_of<UsageError>([] { make_codec("snappy"); }),
            "this build has no snappy (`codec`): install libsnappy-dev, then configure and build again");
}
#endif

}  // namespace
}  // namespace laconic::compress
