// Papers' tables beside ours: what would run is what programs take, and a table is made.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "apps/reproduce/tables.h"
#include "apps/common/text.h"
#include "tests/program.h"

namespace laconic {
namespace {

TEST(Reproduce, EveryPaperHasATableWithAFigureInEachCell) {
  std::set<std::string> papers, names;
  for (const PaperTable& table : paper_tables()) {
    papers.insert(table.paper);
    EXPECT_TRUE(names.insert(table.paper + " " + table.name).second) << table.name;
    ASSERT_GE(table.rows.size(), 2u);
    for (const PaperRow& row : table.rows) EXPECT_EQ(row.printed.size(), table.columns.size()) << row.label;
  }
  EXPECT_EQ(papers.size(), 5u);
}

TEST(Reproduce, WhatWouldRunIsTakenByThePrograms) {
  for (const char* const scale : {"small", "full"}) {
    const Result tables = run(std::string("laconic reproduce --dry-run --scale ") + scale);
    ASSERT_EQ(tables.exit_code, 0) << tables.err;
    std::istringstream lines(tables.out);
    std::size_t commands = 0;
    for (std::string line; std::getline(lines, line); ++commands) {
      const Result comparison = run(line + " --dry-run");
      EXPECT_EQ(comparison.exit_code, 0) << line << "\n" << comparison.err;
    }
    EXPECT_EQ(commands, paper_tables().size());
  }
}

TEST(Reproduce, SaysWhatThereIsNot) {
  EXPECT_TRUE(has(run("laconic reproduce dgc").err, "there is no paper dgc (laconic reproduce): name one of redsync"));
  EXPECT_TRUE(has(run("laconic reproduce redsync fig9").err, "there is no table fig9 of redsync"));
  EXPECT_EQ(run("laconic reproduce --out none").exit_code, 2);
  EXPECT_TRUE(has(run("laconic reproduce slim-dp --list").out, "slim-dp saving: "));
}

TEST(Reproduce, MakesATable) {
  const TempFolder dir;
  const Result r = run("laconic reproduce redsync accuracy --data synthetic:128,50 --out " + dir.path());
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const std::string text = file_text(dir / "redsync-accuracy.md");
  EXPECT_EQ(r.out, text + "\n");
  for (const char* part : {"| SGD | 7.48 | ", "| qRGC | 7.87 | ", "test error %", "* 1 % of the gradients is sent",
                           "    laconic compare mnist --model lenet"})
    EXPECT_TRUE(has(text, part)) << part << " in " << text;
}

TEST(Reproduce, SaysHowFarItIs) {
  const std::string shown = shown_in_terminal("laconic reproduce redsync accuracy --data synthetic:128,50", 80);
  if (shown.empty()) GTEST_SKIP() << "no terminal can be made here";
  EXPECT_TRUE(has(shown, "laconic: [1/")) << shown;
}

}  // namespace
}  // namespace laconic
