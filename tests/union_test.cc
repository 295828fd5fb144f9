// laconic bench union: its arithmetic on ledgers made by hand, and the program.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/bench/union_traffic.h"
#include "tests/program.h"

namespace laconic {
namespace {

using Ledgers = std::vector<std::vector<dist::LedgerRow>>;

dist::LedgerRow row(std::int64_t elements, double sent, double bytes, double united) {
  return {.parameter = "w",
          .choice = "exact",
          .elements = elements,
          .exchanges = 10,
          .measured = 5,
          .sent = sent,
          .bytes = bytes,
          .union_density = united};
}

TEST(UnionTraffic, OfIndependentChoicesIsWhatNobodyLeftOut) {
  EXPECT_EQ(independent_union(0.25, 1), 0.25);
  EXPECT_DOUBLE_EQ(independent_union(0.25, 2), 0.4375);
  EXPECT_NEAR(independent_union(0.001, 16), 0.01588, 1e-5);  // RedSync's figure
  EXPECT_EQ(independent_union(0, 9), 0);
  EXPECT_EQ(independent_union(1, 9), 1);
}

TEST(UnionTraffic, IsTheMeanOverRanksOfWhatAStepSendsAndTheUnionByElements) {
  const dist::LedgerRow whole{.parameter = "(others)", .choice = "all", .elements = 7000, .bytes = 1e9};
  // Two ranks; of 1000 elements they choose 10 and 30, of 3000 each 3.
  const Ledgers gathered = {{row(1000, 10, 800, 0.035), row(3000, 3, 200, 0.002), whole},
                            {row(1000, 30, 2400, 0.035), row(3000, 3, 200, 0.002), whole}};
  const Ledgers split = {{row(1000, 10, 600, 0.01), row(3000, 3, 100, 0.001), whole},
                         {row(1000, 30, 1000, 0.01), row(3000, 3, 100, 0.001), whole}};
  const UnionTraffic t = union_traffic(2, gathered, split);
  EXPECT_EQ(t.workers, 2);
  EXPECT_EQ(t.elements, 4000);
  EXPECT_DOUBLE_EQ(t.density, (20.0 + 3) / 4000);
  EXPECT_DOUBLE_EQ(t.union_density, (35.0 + 6) / 4000);
  EXPECT_DOUBLE_EQ(t.independent, (1000 * (1 - 0.99 * 0.99) + 3000 * (1 - 0.999 * 0.999)) / 4000);
  EXPECT_DOUBLE_EQ(t.allgather_bytes, (80 + 20 + 240 + 20) / 2.0);
  EXPECT_DOUBLE_EQ(t.split_bytes, (60 + 10 + 100 + 10) / 2.0);
  EXPECT_DOUBLE_EQ(t.dense_bytes, 4.0 * 4000);
  EXPECT_EQ(union_traffic(2, {{whole}, {whole}}, {{whole}, {whole}}).elements, 0);
}

TEST(UnionTraffic, CrossesWhereSplitSendsLessAndGoesOnDoingSo) {
  const auto crossing_of = [](const std::vector<std::pair<double, double>>& bytes) {
    std::vector<UnionTraffic> all;
    for (const auto& [gathered, split] : bytes)
      all.push_back({.workers = 2 << all.size(), .allgather_bytes = gathered, .split_bytes = split});
    return crossing(all);
  };
  EXPECT_EQ(crossing_of({{1, 2}, {3, 3}, {7, 4}, {15, 5}}), 8);
  EXPECT_EQ(crossing_of({{3, 2}, {3, 4}, {7, 4}}), 8) << "the first was chance";
  EXPECT_EQ(crossing_of({{3, 2}, {7, 4}}), 2);
  EXPECT_EQ(crossing_of({{1, 2}, {3, 4}}), std::nullopt);
  EXPECT_EQ(crossing_of({}), std::nullopt);
}

TEST(BenchUnion, TrainsAndCountsWhatWorkersSend) {
  const Result r = run(
      "laconic bench union --model lenet --data synthetic:256,10 --workers 1,2,5 --steps 4 --batch 4 --selector exact "
      "--density 0.01 --json");
  ASSERT_EQ(r.exit_code, 0) << r.err;
  const auto j = nlohmann::json::parse(r.out);
  ASSERT_EQ(j["results"].size(), 3u);
  double before = 0;
  for (const auto& line : j["results"]) {
    const double N = line["workers"], k = 480;  // of fc1.weight's 48,000 elements
    EXPECT_EQ(line["elements"], 48'000);
    EXPECT_DOUBLE_EQ(line["density"], 0.01);
    EXPECT_DOUBLE_EQ(line["allgather_bytes"], (N - 1) * (8 * k + 8));
    EXPECT_LE(line["split_bytes"], 6 * 4 * k + 12 * N);
    EXPECT_DOUBLE_EQ(line["dense_bytes"], 2 * (N - 1) / N * 4 * 48'000);
    EXPECT_NEAR(line["independent_union_density"], 1 - std::pow(0.99, N), 1e-12);
    EXPECT_GT(line["union_density"], before);
    EXPECT_LE(line["union_density"], 0.01 * N + 1e-12);
    before = line["union_density"];
  }
  EXPECT_LT(j["results"][2]["split_bytes"], j["results"][2]["allgather_bytes"]);
  EXPECT_LE(j["split_sends_less_from"], 5);
}

TEST(BenchUnion, WritesATableAndRefusesWhatMakesNoSense) {
  const Result table =
      run("laconic bench union --model lenet --data synthetic:256,10 --workers 1 --steps 2 --batch 4 --markdown");
  ASSERT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("| workers | chosen, % | union, % |"), std::string::npos) << table.out;
  EXPECT_NE(table.out.find("\n| 1 | 0.100 | 0.100 | 0.100 | 0 | 0 | 0 | 0.00 | 0.00 |"), std::string::npos)
      << table.out;
  EXPECT_NE(table.out.find("allgather sends no more with 1 worker"), std::string::npos) << table.out;
  const auto fails = [](const std::string& arguments, int code, const std::string& part) {
    const Result r = run("laconic bench union " + arguments);
    EXPECT_EQ(r.exit_code, code) << arguments << "\n" << r.err;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  };
  fails("--workers 4,2", 2, "must rise");
  fails("--workers 0", 2, "--workers");
  fails("--model lenot", 2, "lenet");
  fails("--density 2", 2, "--density");
  fails("--selector best", 2, "--selector");
  fails("--data " + TempFolder().path() + "/none", 1, "none");
}

}  // namespace
}  // namespace laconic
