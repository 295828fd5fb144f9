#include "compress/inceptionn/inceptionn.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/base/random.h"
#include "tests/each_isa.h"
#include "tests/error_of.h"
#include "tests/inceptionn_steps.h"
#include "tests/pairwise.h"
#include "tests/test_devices.h"
#include "tests/values_of.h"

namespace laconic::compress {
namespace {

using Mode = InceptionnMode;

struct Setting {
  Mode mode;
  int exponent;
};
constexpr Setting kSettings[] = {{Mode::bounded, -10},   {Mode::published, -10}, {Mode::bounded, -6},
                                 {Mode::published, -1},  {Mode::bounded, -20},   {Mode::bounded, 3},
                                 {Mode::published, -20}, {Mode::bounded, -100},  {Mode::published, 5}};

/// By Algorithms 2 and 3, value by value: the payload, and what it decodes to.
struct Expected {
  std::vector<std::byte> payload;
  std::vector<float> values;
};
Expected expected_of(const Setting& s, const std::vector<float>& x) {
  Expected e{std::vector<std::byte>((x.size() + 7) / 8 * cpu::kLongestGroup), std::vector<float>(x.size())};
  std::byte* to = e.payload.data();
  for (std::size_t g = 0; g < x.size(); g += 8) {
    std::byte* const head = to;
    to += 2;
    unsigned tags = 0;
    for (std::size_t i = g; i < std::min(g + 8, x.size()); ++i) {
      const CodedValue v = compress_value(s.mode, s.exponent, x[i]);
      tags |= v.tag << 2 * (i - g);
      for (unsigned b = 0; b < kPayloadBytes[v.tag]; ++b) *to++ = static_cast<std::byte>(v.payload >> 8 * b);
      e.values[i] = decompress_value(s.mode, s.exponent, v);
    }
    head[0] = static_cast<std::byte>(tags), head[1] = static_cast<std::byte>(tags >> 8);
  }
  e.payload.resize(static_cast<std::size_t>(to - e.payload.data()));
  return e;
}

/// Values as gradients have them, and some of every other kind.
std::vector<float> mixed(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> x(n);
  for (float& v : x) {
    const unsigned kind = random() % 16;
    v = kind == 0   ? std::bit_cast<float>(static_cast<std::uint32_t>(random()))
        : kind == 1 ? 0.0f
        : kind < 10 ? 1e-4f * static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000
                    : std::ldexp(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000,
                                 -static_cast<int>(random() % 12));
  }
  return x;
}

/// The values through both algorithms and all kernels; the bound, where it is promised.
void check(const Setting& s, const std::vector<float>& x) {
  const Inceptionn codec(s.mode, s.exponent);
  const Expected expected = expected_of(s, x);
  const std::vector<std::byte>& bytes = expected.payload;
  const std::vector<float>& values = expected.values;
  with_each_isa([&](const char* isa) {
    Bytes payload;
    codec.encode(slice(x), {}, payload);
    ASSERT_EQ(payload.size(), bytes.size()) << isa;
    ASSERT_TRUE(bytes.empty() || std::memcmp(payload.data(), bytes.data(), bytes.size()) == 0) << isa;
    std::vector<float> y(x.size(), 7.0f);
    codec.decode(payload.slice(), slice(y));
    ASSERT_TRUE(same_bits(y, values)) << isa;
  });
  if (s.mode == Mode::published) return;
  const double bound = std::ldexp(1.0, s.exponent);
  std::size_t off = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    off += std::isfinite(x[i]) && !(std::abs(static_cast<double>(values[i]) - x[i]) <= bound);
  ASSERT_EQ(off, 0u) << "of " << x.size() << " values from " << x.front() << " on are further off than the bound";
}

constexpr std::uint32_t kPart = 1 << 16;  // values at a time

TEST(Inceptionn, EveryKernelMakesTheBitsOfTheAlgorithmsAndBoundedKeepsItsBound) {
  std::mt19937 random(1);
  std::vector<float> x(kPart);
  std::size_t part = 0;
  constexpr std::uint32_t kStep = kSanitized ? 16 * kPart : kPart;
  for (std::uint32_t top = 0; top < 1u << 24; top += kStep, ++part) {  // one value of each 256 neighbours
    for (std::uint32_t i = 0; i < kPart; ++i)
      x[i] = std::bit_cast<float>((top + i) << 8 | static_cast<std::uint32_t>(random() & 0xFF));
    if (part % 2) std::shuffle(x.begin(), x.end(), random);  // all classes side by side
    for (const Setting& s : {kSettings[part % 2], kSettings[2 + part % (std::size(kSettings) - 2)]}) check(s, x);
    if (HasFatalFailure()) return;
  }
}

// By hand, minutes each: compress_test --gtest_also_run_disabled_tests --gtest_filter='*AllFloats*/0', and 1, 2, ...
class DISABLED_AllFloats : public testing::TestWithParam<Setting> {};
TEST_P(DISABLED_AllFloats, AreTheSameInEveryKernel) {
  std::vector<float> x(kPart);
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += kPart) {
    for (std::uint32_t i = 0; i < kPart; ++i) x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first) + i);
    check(GetParam(), x);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(Inceptionn, DISABLED_AllFloats, testing::ValuesIn(kSettings));

TEST(Inceptionn, TiesAndMultiplesOfTheBoundAndTheirNeighbours) {
  for (const Setting& s : kSettings) {
    std::vector<float> x;
    for (int k = 0; k < 600; ++k)
      for (const double unit : {std::ldexp(0.5, s.exponent), 0x1p-8, 0x1p-16 * 127, 1.0 / 512})
        for (const float sign : {1.0f, -1.0f}) {
          const auto v = static_cast<float>(k * unit) * sign;
          x.insert(x.end(), {v, std::nextafter(v, 1e30f), std::nextafter(v, -1e30f)});
        }
    check(s, x);
  }
}

TEST(Inceptionn, AGroupIsTagsThenPayloads) {
  const std::vector<float> x{0.5f, 0.0001f, -0.01f, 2.0f};
  Bytes payload;
  Inceptionn(Mode::published, -10).encode(slice(x), {}, payload);
  // 0.5: tag 2, 2^14; 0.0001: tag 0; -0.01 in [2^-7, 2^-6): tag 1, sign and 1; 2: tag 3, the float.
  const unsigned char expected[] = {0b11010010, 0, 0x00, 0x40, 0x81, 0, 0, 0, 0x40};
  ASSERT_EQ(payload.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(payload.data(), expected, sizeof expected), 0);

  payload.clear();
  Inceptionn(Mode::bounded, -10).encode(slice(x), {}, payload);
  // -0.01 = -5.12 / 512: rounded to 5.
  const unsigned char bounded[] = {0b11010010, 0, 0x00, 0x40, 0x85, 0, 0, 0, 0x40};
  ASSERT_EQ(payload.size(), sizeof bounded);
  EXPECT_EQ(std::memcmp(payload.data(), bounded, sizeof bounded), 0);
}

TEST(Inceptionn, MinusTheBoundBecomesMinusZero) {
  const std::vector<float> x{-0x1p-10f};
  Bytes payload;
  const Inceptionn codec(Mode::bounded, -10);
  codec.encode(slice(x), {}, payload);
  std::vector<float> y(1, 1.0f);
  codec.decode(payload.slice(), slice(y));
  EXPECT_EQ(y[0], 0.0f);
  EXPECT_TRUE(std::signbit(y[0]));
}

TEST(Inceptionn, PublishedDoesNotKeepItsBoundBelowTwoToMinusSeven) {
  const auto worst = [](Mode mode, int exponent) {
    double worst = 0;
    for (std::uint32_t bits = 0; bits < 0x3F800000; bits += kSanitized ? 499 : 97) {
      const auto v = std::bit_cast<float>(bits);
      const float back = decompress_value(mode, exponent, compress_value(mode, exponent, v));
      worst = std::max(worst, std::abs(static_cast<double>(v) - back));
    }
    return worst / std::ldexp(1.0, exponent);
  };
  EXPECT_NEAR(worst(Mode::published, -6), 1, 0.01);
  EXPECT_NEAR(worst(Mode::published, -8), 2, 0.01);
  EXPECT_NEAR(worst(Mode::published, -10), 8, 0.01);
  EXPECT_NEAR(worst(Mode::published, -12), 32, 0.01);
  for (const int exponent : {-6, -8, -10, -12}) EXPECT_LE(worst(Mode::bounded, exponent), 1);
}

TEST(Inceptionn, AnyLengthAtAnyAddress) {
  for (std::size_t n = 0; n < 150; ++n) {
    const std::vector<float> x = mixed(n, static_cast<unsigned>(n));
    for (const Setting& s : kSettings) check(s, x);
  }
  const std::vector<float> x = mixed(1001, 3);
  Bytes payload;
  payload.append(3);
  const Inceptionn codec(Mode::bounded, -10);
  codec.encode(slice(x).sub(1, 1000), {}, payload);
  std::vector<float> y(1001);
  codec.decode(payload.slice().sub(3, payload.size() - 3), slice(y).sub(1, 1000));
  const std::vector<float> expected = expected_of({Mode::bounded, -10}, x).values;
  EXPECT_EQ(std::memcmp(y.data() + 1, expected.data() + 1, 1000 * sizeof(float)), 0);
  EXPECT_EQ(y[0], 0.0f);
}

TEST(Inceptionn, AddingOnTheWayGivesTheBitsOfEachStepAlone) {
  for (const std::size_t n : {0, 5, 16, 255, 256, 257, 5000}) {
    const std::vector<float> theirs = mixed(n, 5), mine = mixed(n, 6);
    for (const Setting& s : kSettings) {
      const Inceptionn codec(s.mode, s.exponent);
      Bytes payload, expected;
      codec.encode(slice(theirs), {}, payload);
      std::vector<float> sum = expected_of(s, theirs).values;
      for (std::size_t i = 0; i < n; ++i) sum[i] = mine[i] + sum[i];
      codec.encode(slice(sum), {}, expected);
      with_each_isa([&](const char* isa) {
        std::vector<float> y = mine;
        codec.decode_add(payload.slice(), slice(y));
        // Which of two NaNs a sum takes is the processor's choice.
        for (std::size_t i = 0; i < n; ++i) {
          ASSERT_TRUE(std::bit_cast<std::uint32_t>(y[i]) == std::bit_cast<std::uint32_t>(sum[i]) || std::isnan(sum[i]));
          if (std::isnan(sum[i])) {
            ASSERT_TRUE(std::isnan(y[i]));
          }
        }
        Bytes again;
        std::vector<float> own = mine;
        codec.decode_add_encode(payload.slice(), slice(own), {}, again);
        ASSERT_EQ(again.size(), expected.size()) << isa;
        std::vector<float> a(n), b(n);
        codec.decode(again.slice(), slice(a));
        codec.decode(expected.slice(), slice(b));
        for (std::size_t i = 0; i < n; ++i) ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) << isa;
      });
    }
  }
}

// ------------------------------------------------------------------------------------------------------ two payloads

TEST(InceptionnHalves, AreALengthAndTwoPayloadsOfTheSameValues) {
  for (const Setting& s : kSettings)
    for (const std::size_t n : {512, 513, 527, 528, 600, 1000, 1023, 5000}) {
      const std::vector<float> x = mixed(n, static_cast<unsigned>(n));
      const std::size_t h = (n - n / 2 + 15) / 16 * 16;
      const Inceptionn halves(s.mode, s.exponent, 16);
      const Inceptionn one(s.mode, s.exponent);
      Bytes first, both, message;
      one.encode(slice(x).sub(0, h), {}, first);
      one.encode(slice(x).sub(0, h), {}, both);
      one.encode(slice(x).sub(h, n - h), {}, both);
      const std::vector<float> values = expected_of(s, x).values;
      with_each_isa([&](const char* isa) {
        Bytes payload;
        payload.append(1).data()[0] = std::byte{9};  // it appends
        halves.encode(slice(x), {}, payload);
        ASSERT_EQ(payload.size(), 1 + 4 + both.size()) << isa;
        ASSERT_LE(payload.size(), 1 + halves.max_bytes(n));
        std::uint32_t length;
        std::memcpy(&length, payload.data() + 1, 4);
        ASSERT_EQ(length, first.size());
        ASSERT_EQ(std::memcmp(payload.data() + 5, both.data(), both.size()), 0) << isa;
        std::vector<float> y(n, 7.0f);
        halves.decode(payload.slice().sub(1, payload.size() - 1), slice(y));
        ASSERT_TRUE(same_bits(y, values)) << isa;
      });
    }
}

TEST(InceptionnHalves, EncodingTellsWhatDecodingWillMakeOfIt) {
  for (const Setting& s : kSettings)
    for (const std::size_t n : {1, 9, 17, 600, 5000}) {
      const std::vector<float> x = mixed(n, static_cast<unsigned>(n)), values = expected_of(s, x).values;
      const Inceptionn codec(s.mode, s.exponent, 16);
      Bytes expected;
      codec.encode(slice(x), {}, expected);
      with_each_isa([&](const char* isa) {
        for (const bool in_place : {false, true}) {
          std::vector<float> y = x, apart(n, 7.0f), &read = in_place ? y : apart;
          Bytes payload;
          codec.encode_and_decode(slice(std::as_const(y)), {}, payload, slice(read));
          ASSERT_EQ(payload.size(), expected.size()) << isa;
          ASSERT_EQ(std::memcmp(payload.data(), expected.data(), expected.size()), 0) << isa;
          ASSERT_TRUE(same_bits(read, values)) << isa << " " << n;
        }
      });
    }
}

TEST(InceptionnHalves, WhatIsShortIsOnePayload) {
  for (const std::size_t n : {0, 1, 16, 511}) {
    const std::vector<float> x = mixed(n, 4);
    Bytes a, b;
    Inceptionn(Mode::bounded, -10, 16).encode(slice(x), {}, a);
    Inceptionn(Mode::bounded, -10).encode(slice(x), {}, b);
    ASSERT_EQ(a.size(), b.size());
    EXPECT_TRUE(a.size() == 0 || std::memcmp(a.data(), b.data(), a.size()) == 0);
  }
}

TEST(InceptionnHalves, AddingOnTheWayGivesTheBitsOfEachStepAlone) {
  for (const std::size_t n : {100, 512, 777, 1024, 5003}) {
    std::vector<float> theirs = mixed(n, 5), mine = mixed(n, 6);
    for (std::vector<float>* x : {&theirs, &mine})
      for (float& v : *x)
        if (!(std::abs(v) < 1e30f)) v = 3.0f;  // no NaN: of two a sum may take either
    for (const Setting& s : kSettings) {
      const Inceptionn codec(s.mode, s.exponent, 16);
      Bytes payload, expected;
      codec.encode(slice(theirs), {}, payload);
      std::vector<float> sum = expected_of(s, theirs).values;
      for (std::size_t i = 0; i < n; ++i) sum[i] = mine[i] + sum[i];
      codec.encode(slice(sum), {}, expected);
      with_each_isa([&](const char* isa) {
        std::vector<float> y = mine;
        codec.decode_add(payload.slice(), slice(y));
        ASSERT_TRUE(same_bits(y, sum)) << isa;
        Bytes again;
        again.append(3);
        y = mine;
        codec.decode_add_encode(payload.slice(), slice(y), {}, again);
        ASSERT_EQ(again.size(), 3 + expected.size()) << isa;
        ASSERT_EQ(std::memcmp(again.data() + 3, expected.data(), expected.size()), 0) << isa;
        ASSERT_TRUE(same_bits(y, mine));
      });
    }
  }
}

TEST(InceptionnHalves, AMessageOfAnotherLengthOrWithAnotherMiddleIsRefused) {
  const std::vector<float> x = mixed(600, 9);
  const Inceptionn codec(Mode::bounded, -10, 16);
  Bytes payload;
  codec.encode(slice(x), {}, payload);
  std::vector<float> y(x.size());
  with_each_isa([&](const char*) {
    for (std::size_t bytes = 0; bytes < payload.size(); ++bytes)
      ASSERT_THROW(codec.decode(payload.slice().first(bytes), slice(y)), DataError);
    std::vector<std::byte> other(payload.slice().begin(), payload.slice().end());
    std::uint32_t length;
    std::memcpy(&length, other.data(), 4);
    for (const std::uint32_t wrong : {0u, 1u, length - 1, length + 1, static_cast<std::uint32_t>(other.size()) - 4,
                                      static_cast<std::uint32_t>(other.size()) - 3, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
      std::memcpy(other.data(), &wrong, 4);
      ASSERT_THROW(codec.decode(slice(other), slice(y)), DataError) << wrong;
      ASSERT_THROW(codec.decode_add(slice(other), slice(y)), DataError) << wrong;
      Bytes sum;
      ASSERT_THROW(codec.decode_add_encode(slice(other), slice(y), {}, sum), DataError) << wrong;
    }
  });
}

// ------------------------------------------------------------------------------------------------- hostile payloads

/// Bytes whose end is the end of what may be read.
class Fenced {
 public:
  explicit Fenced(std::size_t most) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    length_ = (most + page - 1) / page * page;
    base_ = static_cast<std::byte*>(
        ::mmap(nullptr, length_ + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mapped_ = length_ + page;
    ::mprotect(base_ + length_, page, PROT_NONE);
  }
  ~Fenced() { ::munmap(base_, mapped_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  Slice<std::byte> last(std::size_t bytes) const { return {base_ + length_ - bytes, bytes}; }

 private:
  std::byte* base_;
  std::size_t length_, mapped_;
};

TEST(Inceptionn, RandomBytesAreNeverReadBeyondTheirEnd) {
  const Fenced fence(4096);
  std::mt19937 random(2);
  const Inceptionn codec(Mode::bounded, -10);
  std::size_t decoded = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::size_t bytes = random() % 400, n = random() % 300;
    const Slice<std::byte> payload = fence.last(bytes);
    const unsigned density = random() % 4;  // also such as are mostly short values, which go on for long
    for (std::byte& b : payload) {
      unsigned v = static_cast<unsigned>(random());
      for (unsigned d = 0; d < density; ++d) v &= static_cast<unsigned>(random());
      b = static_cast<std::byte>(v);
    }
    with_each_isa([&](const char*) {
      std::vector<float> y(n + 2, 7.0f);
      ++decoded;
      try {
        codec.decode(payload, slice(y).sub(1, n));
        codec.decode_add(payload, slice(y).sub(1, n));
      } catch (const DataError&) {
        ++refused;
      }
      ASSERT_EQ(y.front(), 7.0f);
      ASSERT_EQ(y.back(), 7.0f);
    });
  }
  EXPECT_GT(refused, decoded / 6 * 5);  // of each set of instructions 20,000
}

TEST(Inceptionn, EncodingWritesOnlyWhereThereIsRoom) {
  std::vector<float> x(77, 3.0f);  // nothing shrinks
  const Inceptionn codec(Mode::bounded, -10);
  const Fenced fence(codec.max_bytes(x.size()));
  with_each_isa([&](const char*) {
    const Slice<std::byte> room = fence.last(codec.max_bytes(x.size()));
    const std::byte* end = cpu::encode_inceptionn(inceptionn_rule(Mode::bounded, -10), x.data(), x.size(), room.data());
    EXPECT_EQ(end - room.data(), static_cast<std::ptrdiff_t>(10 * 2 + 77 * 4));
  });
}

TEST(Inceptionn, APayloadOfAnotherLengthIsRefused) {
  const std::vector<float> x = mixed(203, 9);
  const Inceptionn codec(Mode::bounded, -10);
  Bytes payload;
  codec.encode(slice(x), {}, payload);
  const Fenced fence(payload.size() + 1);
  std::vector<float> y(x.size());
  with_each_isa([&](const char*) {
    for (std::size_t bytes = 0; bytes < payload.size(); ++bytes) {
      const Slice<std::byte> cut = fence.last(bytes);
      std::copy_n(payload.data(), bytes, cut.data());
      EXPECT_THROW(codec.decode(cut, slice(y)), DataError);
    }
    const Slice<std::byte> longer = fence.last(payload.size() + 1);
    std::copy_n(payload.data(), payload.size(), longer.data());
    EXPECT_EQ(error_of<DataError>([&] { codec.decode(longer, slice(y)); }),
              concat("inceptionn codec: ", longer.size(),
                     " bytes are no 203 values. Do all ranks use the same codec, and is the file whole?"));
  });
}

TEST(Inceptionn, ValuesThatAreNotThereMustBeZero) {
  Bytes payload;
  const Slice<std::byte> bytes = payload.append(3);
  bytes[0] = std::byte{0b0100};  // the second of one value
  bytes[1] = bytes[2] = std::byte{0};
  std::vector<float> y(1);
  EXPECT_THROW(Inceptionn(Mode::bounded, -10).decode(payload.slice(), slice(y)), DataError);
}

TEST(Inceptionn, RefusesBoundsThatFloatsCannotCount) {
  for (const int exponent : {-101, 101, 40000, -40000}) EXPECT_THROW(Inceptionn(Mode::bounded, exponent), UsageError);
  EXPECT_NO_THROW(Inceptionn(Mode::published, -100));
}

using InceptionnOnCuda = CudaTest;

TEST_F(InceptionnOnCuda, CodesLongMessagesAsTheCpu) {
  Random random(5, Purpose::test);
  std::vector<float> x(500'009);
  for (float& v : x) v = std::ldexp(random.normal(), -static_cast<int>(random.below(14)));
  const Placed<float> there(x, kCuda);
  for (const InceptionnMode mode : {InceptionnMode::bounded, InceptionnMode::published}) {
    const Inceptionn codec(mode, -10, 16);
    Bytes payload, on_cuda(kCuda);
    codec.encode(slice(x), {}, payload);
    codec.encode(there, {}, on_cuda);
    EXPECT_GT(payload.size(), 256u * 1024) << "or no two parts are put together";
    ASSERT_EQ(host_values(on_cuda.slice()), host_values(payload.slice()));
    std::vector<float> y(x.size());
    const Placed<float> y_cuda(y, kCuda);
    codec.decode(payload.slice(), slice(y));
    codec.decode(on_cuda.slice(), y_cuda);
    EXPECT_EQ(host_values(y_cuda.slice()), y);
  }
}

TEST_F(InceptionnOnCuda, RefusesWhatTheCpuRefuses) {
  Random random(6, Purpose::test);
  int read = 0, refused = 0;
  for (int round = 0; round < 400; ++round) {
    const std::size_t n = round % 2 ? 1 + random.below(100) : 512 + random.below(2000);
    std::vector<float> x(n);
    for (float& v : x) v = std::ldexp(random.normal(), -static_cast<int>(random.below(14)));
    const Inceptionn codec(InceptionnMode::bounded, -8, 16);
    Bytes payload;
    codec.encode(slice(x), {}, payload);
    std::vector<std::byte> damaged(payload.data(), payload.data() + payload.size());
    if (round % 4 > 0)
      for (std::uint32_t hits = random.below(3); hits > 0; --hits)
        damaged[random.below(static_cast<std::uint32_t>(damaged.size()))] = static_cast<std::byte>(random.bits());
    if (round % 8 == 7) damaged.resize(random.below(static_cast<std::uint32_t>(damaged.size())));
    std::vector<float> y(n);
    const Placed<float> y_cuda(y, kCuda);
    const Placed<std::byte> there(damaged, kCuda, round % 3);
    bool right = true;
    try {
      codec.decode(slice(std::as_const(damaged)), slice(y));
    } catch (const DataError&) {
      right = false;
    }
    (right ? read : refused) += 1;
    if (right) {
      codec.decode(there, y_cuda);
      const std::vector<float> got = host_values(y_cuda.slice());
      EXPECT_EQ(std::memcmp(got.data(), y.data(), n * sizeof(float)), 0) << round;
    } else {
      EXPECT_THROW(codec.decode(there, y_cuda), DataError) << round;
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace laconic::compress
