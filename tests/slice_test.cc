#include "core/slice.h"

#include <gtest/gtest.h>

namespace laconic {
namespace {

TEST(Slice, ReadsBytesAsWholeAlignedValuesAndNoOthers) {
  const std::vector<float> x = {1, -2, 3};
  const Slice<const std::byte> bytes = slice(x).bytes();
  const Slice<const float> read = values_in<float>(bytes.sub(4, 8));
  EXPECT_EQ(read.data(), x.data() + 1) << "in place";
  EXPECT_EQ(std::vector<float>(read.begin(), read.end()), (std::vector<float>{-2, 3}));
  EXPECT_TRUE(values_in<float>(bytes.first(0)).empty());
  EXPECT_THROW(values_in<float>(bytes.sub(1, 8)), ShapeError) << "not aligned";
  EXPECT_THROW(values_in<float>(bytes.first(7)), ShapeError) << "no whole number";
}

}  // namespace
}  // namespace laconic
