#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compress/codecs.h"

namespace laconic::compress {
namespace {

TEST(Identity, WritesTheFloatsAsTheyLieInLittleEndianMemory) {
  const std::vector<float> x{1.0f, -2.0f};
  Bytes payload;
  payload.append(1).data()[0] = std::byte{7};  // it appends
  make_codec("identity")->encode(slice(x), {}, payload);
  const unsigned char expected[] = {7, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
  ASSERT_EQ(payload.size(), sizeof expected);
  EXPECT_EQ(std::memcmp(payload.data(), expected, sizeof expected), 0);
}

TEST(Identity, GivesBackEveryBitAlsoOfWhatIsNoNumber) {
  const std::vector<float> x{0.0f, -0.0f, std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity(), std::numeric_limits<float>::denorm_min()};
  const auto identity = make_codec("identity");
  Bytes payload;
  identity->encode(slice(x), {}, payload);
  EXPECT_EQ(payload.size(), identity->max_bytes(x.size()));
  EXPECT_EQ(static_cast<double>(payload.size()), identity->expected_bytes(x.size()));
  std::vector<float> y(x.size(), 1.0f);
  identity->decode(payload.slice(), slice(y));
  EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0);
}

TEST(Identity, RefusesAPayloadOfAnotherLength) {
  Bytes payload;
  payload.append(7);
  std::vector<float> y(2);
  EXPECT_THROW(make_codec("identity")->decode(payload.slice(), slice(y)), DataError);
}

TEST(Bytes, KeepWhatTheyHoldWhileTheyGrow) {
  Bytes bytes;
  for (int i = 0; i < 1000; ++i) bytes.append(1).data()[0] = static_cast<std::byte>(i % 251);
  ASSERT_EQ(bytes.size(), 1000u);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(bytes.data()[i], static_cast<std::byte>(i % 251));
  bytes.clear();
  EXPECT_EQ(bytes.size(), 0u);
}

}  // namespace
}  // namespace laconic::compress
