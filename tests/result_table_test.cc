#include "apps/common/result_table.h"

#include <gtest/gtest.h>

#include "apps/common/text.h"

namespace laconic {
namespace {

Cells row(const std::string& name, double a, double b, const std::string& word) {
  return {{"set", "", name}, {"ms a step", "", a}, {"to the first", "", b}, {"words", "", word}};
}

TEST(ResultTable, ARowHasALineWhereItFits) {
  for (const int columns : {0, 200, 39}) {
    ResultTable table(false, std::nullopt, "", columns);
    table.add(row("all", 1.5, 1, "many"));
    table.add(row("RedSync", 27, 0.25, ""));
    EXPECT_EQ(table.text(),
              "\n"
              "set      ms a step  to the first  words\n"
              "all            1.5             1  many\n"
              "RedSync         27          0.25\n")
        << columns;
  }
}

TEST(ResultTable, FurtherColumnsStandBelowInANarrowTerminal) {
  ResultTable table(false, std::nullopt, "", 38);
  table.add(row("all", 1.5, 1, "many"));
  table.add(row("RedSync", 27, 0.25, ""));
  EXPECT_EQ(table.text(),
            "\n"
            "set      ms a step  to the first\n"
            "         words\n"
            "all            1.5             1\n"
            "         many\n"
            "RedSync         27          0.25\n");
  table.add(row("more", 3, 2, "few"));
  EXPECT_EQ(table.text(),
            "more             3             2\n"
            "         few\n");
}

TEST(ResultTable, BesideAWideFirstColumnOthersStandBelowIt) {
  ResultTable table(false, std::nullopt, "", 30);
  table.add(row("a name that is long", 1, 2, "few"));
  EXPECT_EQ(table.text(),
            "\n"
            "set                  ms a step\n"
            "    to the first  words\n"
            "a name that is long          1\n"
            "               2  few\n");
}

TEST(ResultTable, MarkdownIsAsWideAsItIs) {
  ResultTable table(true, std::nullopt, "", 20);
  table.add(row("all", 1.5, 1, "many"));
  EXPECT_EQ(table.text(),
            "\n"
            "| set | ms a step | to the first | words |\n"
            "|---|---:|---:|---|\n"
            "| all | 1.5 | 1 | many |\n");
}

TEST(Text, LinesBreakAtBlanksByTheirLetters) {
  EXPECT_EQ(broken("one two  three\n  four", 8), "one two\nthree\n  four");
  EXPECT_EQ(broken("… – … –", 7), "… – … –");
  EXPECT_EQ(broken("… – … –", 6), "… – …\n–");
  EXPECT_EQ(broken("unbreakable", 4), "unbreakable");
  EXPECT_EQ(fitted("  --option A  what it is for\n  two three four", 30, 4),
            "  --option A  what it is for\n  two three four");
  EXPECT_EQ(fitted("  --option A  what it is for, and why", 31, 4),
            "  --option A  what it is for,\n              and why");
  EXPECT_EQ(fitted("two three four five", 10, 2), "two\n  three\n  four\n  five");
  EXPECT_EQ(first_letters("a…b…", 3), "a…b");
  EXPECT_EQ(first_letters("ab", 3), "ab");
}

}  // namespace
}  // namespace laconic
