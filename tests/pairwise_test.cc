#include "tests/pairwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace laconic {
namespace {

TEST(Pairwise, AnyTwoValuesOfTwoChoicesMeetInFewRows) {
  const std::vector<std::vector<std::size_t>> cases = {
      {1, 1}, {2, 2, 2}, {6, 3, 2, 2, 2}, {4, 6, 5, 2, 7, 7}, {24, 5, 2}};
  for (const auto& counts : cases) {
    const auto rows = pairwise(counts);
    std::size_t product = 1, fewest = 0;
    for (std::size_t c = 0; c < counts.size(); ++c) {
      product *= counts[c];
      for (std::size_t d = 0; d < c; ++d) {
        std::set<std::pair<std::size_t, std::size_t>> met;
        for (const auto& row : rows) {
          ASSERT_LT(row[c], counts[c]);
          met.emplace(row[c], row[d]);
        }
        EXPECT_EQ(met.size(), counts[c] * counts[d]) << c << " and " << d;
        fewest = std::max(fewest, counts[c] * counts[d]);
      }
    }
    EXPECT_LE(rows.size(), std::min(product, 2 * fewest));
    EXPECT_EQ(rows, pairwise(counts));
  }
}

TEST(Pairwise, AllCombinationsAreTheProduct) {
  const auto rows = all_combinations({2, 3, 4});
  const std::set<std::vector<std::size_t>> different(rows.begin(), rows.end());
  EXPECT_EQ(different.size(), kSanitized ? 4u : 24u);
  for (const auto& row : rows) {
    ASSERT_EQ(row.size(), 3u);
    EXPECT_TRUE(row[0] < 2 && row[1] < 3 && row[2] < 4);
  }
}

TEST(Pairwise, EachOnceHasEveryValue) {
  const std::vector<std::size_t> counts = {4, 6, 5, 2, 7, 7, 1, 2};
  const auto rows = each_once(counts);
  EXPECT_EQ(rows.size(), 7u);
  for (std::size_t c = 0; c < counts.size(); ++c) {
    std::set<std::size_t> values;
    for (const auto& row : rows) values.insert(row[c]);
    EXPECT_EQ(values.size(), counts[c]);
    EXPECT_LT(*values.rbegin(), counts[c]);
  }
}

}  // namespace
}  // namespace laconic
