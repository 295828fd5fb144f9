#include "apps/report/report.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/program.h"

namespace laconic {
namespace {

/// The data that a page draws.
nlohmann::json runs_on(const std::string& page) {
  const std::string before = "const runs = ", after = ";\nconst colours";
  const auto begin = page.find(before), end = page.find(after);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return nlohmann::json::parse(page.substr(begin + before.size(), end - begin - before.size()));
}

std::string write(const TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return folder / name;
}

constexpr const char* kRun = R"({"run":{"model":"lenet","command":"mnist </script>","version":"0.1.0"}})"
                             "\n";

/// Step n took n ms, sent n bytes and had the loss n.
std::string steps(int first, int last) {
  std::string text;
  for (int n = first; n <= last; ++n)
    text +=
        nlohmann::json{
            {"step", n},          {"loss", n}, {"step_ms", n}, {"forward_ms", 0.5 * n}, {"exposed_ms", 0.25 * n},
            {"bytes_sent_sum", n}}
            .dump() +
        "\n";
  return text;
}

TEST(Report, HasEachFigureWhereTheLogHasIt) {
  const TempFolder folder;
  const std::string log = write(folder, "log",
                                kRun + steps(1, 3) + R"({"eval":{"epoch":1,"loss":1,"top1_error":12.5}})" + "\n" +
                                    steps(4, 5) + R"({"eval":{"epoch":2,"loss":1,"top1_error":10}})" + "\n");
  const auto runs = runs_on(report_page({{.title = "a < b", .log = log}}));
  ASSERT_EQ(runs.size(), 1u);
  const auto& run = runs[0];
  EXPECT_EQ(run["title"], "a < b");
  EXPECT_EQ(run["command"], "mnist </script>");
  EXPECT_EQ(run["steps"]["step"], nlohmann::json({1, 2, 3, 4, 5}));
  EXPECT_EQ(run["steps"]["bytes"], nlohmann::json({1, 3, 6, 10, 15}));
  EXPECT_EQ(run["steps"]["loss"], nlohmann::json({1, 2, 3, 4, 5}));
  EXPECT_NEAR(run["steps"]["seconds"][4].get<double>(), 0.015, 1e-12);
  EXPECT_EQ(run["step_ms"][0], 3);
  EXPECT_EQ(run["exposed"], 0.25);
  EXPECT_EQ(run["bytes_a_step"], 3);
  EXPECT_EQ(run["evals"]["step"], nlohmann::json({3, 5}));
  EXPECT_EQ(run["evals"]["bytes"], nlohmann::json({6, 15}));
  EXPECT_EQ(run["evals"]["value"], nlohmann::json({87.5, 90}));
  EXPECT_EQ(run["measure"], "accuracy");
  ASSERT_EQ(run["parts"].size(), 2u);
  EXPECT_EQ(run["parts"][0]["what"], "forward");
  EXPECT_EQ(run["parts"][1]["ms"], 0.75);
}

TEST(Report, NothingInALogEndsTheScript) {
  const TempFolder folder;
  const std::string page = report_page({{.title = "</script>", .log = write(folder, "log", kRun + steps(1, 2))}});
  EXPECT_EQ(page.find("</script>"), page.rfind("</script>"));
  EXPECT_EQ(page.find("src="), std::string::npos) << "something is loaded";
  EXPECT_EQ(page.find("href"), std::string::npos);
}

TEST(Report, ManyStepsArePointsOfNeighbours) {
  const TempFolder folder;
  const auto runs = runs_on(report_page({{.title = "long", .log = write(folder, "log", kRun + steps(1, 1201))}}));
  const auto& points = runs[0]["steps"];
  ASSERT_EQ(points["step"].size(), 401u);  // of three each
  EXPECT_EQ(points["loss"][0], 2);
  EXPECT_EQ(points["ms"][1], 5);
  EXPECT_EQ(points["step"][400], 1201);
  EXPECT_EQ(points["bytes"][400], 1201 * 1202 / 2);
}

TEST(Report, WhatWasNotCountedOrIsNoNumberIsLeftOut) {
  const TempFolder folder;
  const std::string log = write(folder, "log",
                                std::string(kRun) + R"({"step":1,"loss":null,"step_ms":2,"bytes_sent_sum":null})" +
                                    "\n" + R"({"step":2,"loss":"much","step_ms":[],"bytes_sent_sum":3})" + "\n" +
                                    R"({"eval":{"metrics":{}}})" + "\n" + R"({"plan":{"buckets":[{}]}})" + "\n" +
                                    R"({"ledger":{"parameters":[{"parameter":"w","sent":null},3]}})" + "\n");
  const auto run = runs_on(report_page({{.title = "odd", .log = log}}))[0];
  EXPECT_EQ(run["steps"]["loss"], nlohmann::json({nullptr, nullptr}));
  EXPECT_EQ(run["steps"]["bytes"], nlohmann::json({nullptr, nullptr}));
  EXPECT_EQ(run["buckets"].size(), 1u);
  EXPECT_EQ(run["ledger"]["rows"], nlohmann::json({{"w", nullptr, nullptr, nullptr}}));
}

TEST(Report, AProgramAndTheToolMakeTheSamePage) {
  const TempFolder folder;
  const std::string at = folder.path() + "/";
  const Result trained =
      run("mnist --data synthetic:400,100 --workers 2 --batch 10 --epochs 1 --quiet --seed 3 --log " + at +
          "lenet.jsonl --trace " + at + "trace --trace-steps 3:5 --report " + at + "one.html");
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Result made = run("laconic report lenet=" + at + "lenet.jsonl --trace " + at + "trace -o " + at + "two.html");
  ASSERT_EQ(made.exit_code, 0) << made.err;
  EXPECT_EQ(made.out, "report: " + at + "two.html\n");
  EXPECT_EQ(text_of(at + "one.html"), text_of(at + "two.html"));
  const auto run_there = runs_on(text_of(at + "one.html"))[0];
  EXPECT_EQ(run_there["last_step"], 20);
  const auto& timeline = run_there["timeline"];
  ASSERT_GE(timeline["rows"].size(), 4u) << "two threads of two ranks";
  EXPECT_GT(timeline["end"], 0);
  ASSERT_FALSE(timeline["arrows"].empty());
  for (const auto& arrow : timeline["arrows"])
    for (const auto& point : arrow) EXPECT_LT(point[0], timeline["rows"].size());
}

TEST(Report, WithoutALogAProgramKeepsNoneButThePage) {
  const TempFolder folder;
  const Result r =
      run("mnist --data synthetic:100,20 --batch 10 --steps 3 --report page.html", "cd " + folder.path() + ";");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  EXPECT_TRUE(has(r.out, "report: page.html\n")) << r.out;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  EXPECT_EQ(runs_on(text_of(folder / "page.html"))[0]["last_step"], 3);
}

TEST(Report, CompareShowsTheFirstRunOfEachSet) {
  const TempFolder folder;
  const Result r = run(
      "laconic compare mnist --data synthetic:100,20 --workers 2 --batch 10 --steps 4 --repeat 2 --no-bound --quiet "
      "--vs \"dense: \" --vs \"16 bits: --codec bf16\" --report " +
      (folder / "page.html"));
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto runs = runs_on(text_of(folder / "page.html"));
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0]["title"], "dense");
  EXPECT_EQ(runs[1]["title"], "16 bits");
  EXPECT_TRUE(has(runs[1]["command"].get<std::string>(), "--seed 0"));
}

TEST(Report, WhatMakesNoPageIsOneSentence) {
  const TempFolder folder;
  const std::string log = write(folder, "log", kRun + steps(1, 2)), page = folder / "page.html";
  const auto refused = [&](const std::string& arguments, int code, const std::string& sentence) {
    const Result r = run("laconic report " + arguments + " -o " + page);
    EXPECT_EQ(r.exit_code, code) << arguments;
    EXPECT_TRUE(has(r.err, sentence)) << r.err;
    EXPECT_FALSE(std::filesystem::exists(page)) << arguments;
  };
  refused(folder / "nowhere", 1, "could not be read");
  refused(write(folder, "empty", kRun), 1, "has no steps");
  refused(log + " --trace other=" + log, 2, "there is no log with the title 'other'");
  refused(log + " --trace " + log, 1, "log");
  EXPECT_EQ(run("laconic report " + log + " -o " + (folder / "no/where")).exit_code, 1);
  const Result both = run("mnist --eval-only --init x --report " + page);
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_TRUE(has(both.err, "--eval-only makes no step")) << both.err;
}

}  // namespace
}  // namespace laconic
