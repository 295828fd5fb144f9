#include "tests/nic_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace laconic::compress {
namespace {

using Mode = InceptionnMode;

/// A stream in which every `whole`-th value travels whole, and the rest by classes drawn at random.
std::vector<float> stream(std::size_t n, unsigned seed, unsigned whole) {
  std::mt19937 random(seed);
  std::vector<float> x(n);
  for (float& v : x) {
    const auto bits = static_cast<std::uint32_t>(random());
    v = random() % whole == 0 ? std::bit_cast<float>(bits | 0x40000000)
                              : std::ldexp(static_cast<float>(bits & 0xFFFF) / 65536, -static_cast<int>(random() % 14));
  }
  return x;
}

std::vector<std::byte> bytes_of(const std::vector<Burst>& bursts) {
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < bursts.size(); ++i) {
    EXPECT_TRUE(i + 1 == bursts.size() || bursts[i].count == kBurstBytes);
    all.insert(all.end(), bursts[i].bytes.begin(),
               bursts[i].bytes.begin() + static_cast<std::ptrdiff_t>(bursts[i].count));
  }
  return all;
}

TEST(Nic, WritesAndReadsTheBitsOfTheCodec) {
  for (unsigned seed = 0; seed < 400; ++seed) {
    const std::size_t n = seed * 7 % 500;
    const std::vector<float> x = stream(n, seed, 1 + seed % 9);
    const Mode mode = seed % 2 ? Mode::published : Mode::bounded;
    const int exponent = -static_cast<int>(seed % 15);
    const Inceptionn codec(mode, exponent);
    Bytes expected;
    codec.encode(slice(x), {}, expected);
    NicCompressor compressor(mode, exponent);
    const std::vector<Burst> bursts = compressor.packet(slice(x));
    const std::vector<std::byte> bytes = bytes_of(bursts);
    ASSERT_EQ(bytes.size(), expected.size());
    ASSERT_TRUE(n == 0 || std::memcmp(bytes.data(), expected.data(), bytes.size()) == 0);

    std::vector<float> y(n), z(n);
    NicDecompressor decompressor(mode, exponent);
    decompressor.packet(bursts, slice(y));
    codec.decode(expected.slice(), slice(z));
    ASSERT_TRUE(n == 0 || std::memcmp(y.data(), z.data(), n * sizeof(float)) == 0);
  }
}

TEST(Nic, TakesABurstEachCycleUnlessNothingShrinks) {
  const auto cycles = [](const std::vector<float>& x) {
    NicCompressor compressor(Mode::published, -10);
    const std::vector<Burst> bursts = compressor.packet(slice(x));
    NicDecompressor decompressor(Mode::published, -10);
    std::vector<float> y(x.size());
    decompressor.packet(bursts, slice(y));
    return std::pair{compressor.cycles(), decompressor.cycles()};
  };
  // 1000 bursts. Zeros: 2 bytes each, 62 bursts out on the way and the last 16 bytes in a cycle of their own.
  EXPECT_EQ(cycles(std::vector<float>(8000, 0.0f)), (std::pair<std::uint64_t, std::uint64_t>{1001, 1000}));
  // Whole values: 34 bytes a burst, 1063 bursts out, the first after a cycle.
  const auto [in, out] = cycles(std::vector<float>(8000, 2.0f));
  EXPECT_EQ(in, 1064u);
  EXPECT_EQ(out, 1063u);
}

TEST(Nic, TheBurstBufferNeedsOneByteMoreThanTwoBursts) {
  std::size_t fullest = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    const std::vector<float> x = stream(400, seed, 2);
    NicDecompressor decompressor(Mode::bounded, -10);
    std::vector<float> y(x.size());
    decompressor.packet(NicCompressor(Mode::bounded, -10).packet(slice(x)), slice(y));
    fullest = std::max(fullest, decompressor.fullest());
  }
  EXPECT_EQ(fullest, NicDecompressor::kBufferBytes);
}

TEST(Nic, RefusesWhatIsNoPacketOfItsLength) {
  const std::vector<float> x = stream(100, 1, 3);
  std::vector<Burst> bursts = NicCompressor(Mode::bounded, -10).packet(slice(x));
  std::vector<float> y(100), longer(101), shorter(99);
  NicDecompressor engine(Mode::bounded, -10);
  EXPECT_NO_THROW(engine.packet(bursts, slice(y)));
  EXPECT_THROW(engine.packet(bursts, slice(shorter)), DataError);
  EXPECT_THROW(engine.packet({}, slice(y)), DataError);
  bursts.back().count -= 1;
  EXPECT_THROW(engine.packet(bursts, slice(y)), DataError);
  bursts.pop_back();
  EXPECT_THROW(engine.packet(bursts, slice(y)), DataError);
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {  // ends, whatever comes
    std::vector<Burst> noise(random() % 10);
    for (Burst& b : noise)
      for (std::byte& v : b.bytes) v = static_cast<std::byte>(random());
    try {
      engine.packet(noise, slice(y));
    } catch (const DataError&) {
    }
  }
}

/// What a simulation goes by is what the engines do, burst by burst, as long as every group shrinks.
TEST(Nic, CostsAreThoseOfTheEngines) {
  for (const std::size_t n : {1u, 8u, 9u, 361u, 362u, 363u, 5000u}) {
    std::vector<float> x(n, 1e-3f);
    for (std::size_t i = 0; i < n; i += 3) x[i] = 0;
    const NicPackets p = nic_packets(Mode::bounded, -10, slice(x));
    EXPECT_DOUBLE_EQ(nic_seconds(n), p.compress_seconds()) << n;
    const double payload = static_cast<double>(p.compressed_bytes - p.packets * kPacketOverhead);
    EXPECT_DOUBLE_EQ(nic_wire_bytes(n, payload), static_cast<double>(p.compressed_bytes)) << n;
    // A slow link is busy with the bytes, a fast one with the engine.
    const double share = 1448.0 / 1538;
    EXPECT_DOUBLE_EQ(nic_link_bytes(n, payload, 1e6), share * static_cast<double>(p.compressed_bytes)) << n;
    EXPECT_DOUBLE_EQ(nic_link_bytes(n, payload, 1e11), 1e11 * p.compress_seconds()) << n;
  }
  EXPECT_DOUBLE_EQ(nic_link_bytes(362 * 100, 144800, 1e6), 144800) << "nothing saved, nothing lost";
}

TEST(Nic, PacketsKeepTheirNumberAndOnlyPayloadShrinks) {
  const std::vector<float> zeros(3620, 0.0f);  // ten packets of 362 floats
  const NicPackets p = nic_packets(Mode::bounded, -10, slice(zeros));
  EXPECT_EQ(p.packets, 10u);
  EXPECT_EQ(p.plain_bytes, 10u * (90 + 1448));
  EXPECT_EQ(p.compressed_bytes, 10u * (90 + 46 * 2));  // 46 groups, the last of 2 floats
  EXPECT_EQ(p.compress_cycles, 10u * (46 + 1));
  EXPECT_DOUBLE_EQ(p.compress_seconds(), 470e-8);
  EXPECT_THROW(nic_packets(Mode::bounded, -10, slice(zeros), 6), UsageError);
}

}  // namespace
}  // namespace laconic::compress
