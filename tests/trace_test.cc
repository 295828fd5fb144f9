#include "core/trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/error.h"
#include "tests/temporary.h"

namespace laconic {
namespace {

using Json = nlohmann::json;

std::vector<Json> events(Trace& trace, const std::string& phase) {
  std::vector<Json> found;
  const Json all = Json::parse(trace.json());
  for (const Json& event : all["traceEvents"])
    if (event["ph"] == phase) found.push_back(event);
  return found;
}

TEST(Trace, WithoutAThreadRowASpanRecordsNothing) {
  Trace trace;
  { Trace::Span span("conv1", "forward"); }
  EXPECT_EQ(Trace::current(), nullptr);
  EXPECT_TRUE(Json::parse(trace.json())["traceEvents"].empty());
}

TEST(Trace, SpansNestAndKeepTheirNames) {
  Trace trace;
  {
    Trace::Thread here(trace.row(2, "compute"));
    Trace::Span outer("lenet \"x\"", "forward");
    { Trace::Span inner("conv1", "forward", 12); }
  }
  const auto spans = events(trace, "X");
  ASSERT_EQ(spans.size(), 2u);
  const Json &inner = spans[0], &outer = spans[1];  // in the order of their ends
  EXPECT_EQ(inner["name"], "conv1");
  EXPECT_EQ(inner["args"]["bytes"], 12);
  EXPECT_EQ(outer["name"], "lenet \"x\"");
  EXPECT_EQ(outer["cat"], "forward");
  EXPECT_EQ(outer["pid"], 2);
  EXPECT_FALSE(outer.contains("args"));
  EXPECT_LE(outer["ts"].get<double>(), inner["ts"].get<double>());
  EXPECT_GE(outer["ts"].get<double>() + outer["dur"].get<double>() + 0.01,
            inner["ts"].get<double>() + inner["dur"].get<double>());
}

TEST(Trace, RowsAreNamedByRankAndThread) {
  Trace trace;
  Trace::Row& compute = trace.row(0, "compute");
  trace.row(0, "communication");
  trace.row(1, "compute");
  EXPECT_EQ(&trace.row(0, "compute"), &compute);
  std::set<std::string> threads;
  std::set<int> lines;
  for (const Json& event : events(trace, "M")) {
    if (event["name"] == "thread_name") threads.insert(event["args"]["name"].get<std::string>());
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["args"]["name"], "rank " + std::to_string(event["pid"].get<int>()));
    }
    lines.insert(event["tid"].get<int>());
  }
  EXPECT_EQ(threads, (std::set<std::string>{"compute", "communication"}));
  EXPECT_EQ(lines.size(), 3u);
}

TEST(Trace, OverlappingSpansBecomePairsWithTheirOwnIds) {
  Trace trace;
  const auto t = Trace::Clock::now();
  const auto ms = [&](int n) { return t + std::chrono::milliseconds(n); };
  trace.row(0, "communication").add("fc1", "message", ms(0), ms(2), 100, true);
  trace.row(0, "communication").add("fc2", "message", ms(1), ms(3), 50, true);
  const auto begins = events(trace, "b"), ends = events(trace, "e");
  ASSERT_EQ(begins.size(), 2u);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
  EXPECT_EQ(begins[1]["id"], ends[1]["id"]);
  EXPECT_NEAR(ends[1]["ts"].get<double>() - begins[1]["ts"].get<double>(), 2000, 0.01);
  EXPECT_EQ(begins[1]["args"]["bytes"], 50);
}

TEST(Trace, ThreadRowsNestAndEndWithTheirScope) {
  Trace trace;
  Trace::Row &a = trace.row(0, "a"), &b = trace.row(0, "b");
  {
    Trace::Thread outer(a);
    {
      Trace::Thread inner(b);
      EXPECT_EQ(Trace::current(), &b);
    }
    EXPECT_EQ(Trace::current(), &a);
    Trace::Thread off(nullptr);
    EXPECT_EQ(Trace::current(), nullptr);
  }
  EXPECT_EQ(Trace::current(), nullptr);
}

TEST(Trace, ManyThreadsRecordWhileItIsWritten) {
  Trace trace;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 4; ++rank)
      threads.emplace_back([&trace, rank] {
        Trace::Thread here(trace.row(rank, "compute"));
        for (int i = 0; i < 500; ++i) Trace::Span span("step", "forward");
      });
    for (int i = 0; i < 5; ++i) EXPECT_NO_THROW(Json::parse(trace.json()));
  }
  EXPECT_EQ(events(trace, "X").size(), 2000u);
}

TEST(Trace, WritesItsJsonToAFile) {
  TemporaryDirectory dir;
  Trace trace;
  trace.row(0, "compute").add("a", "forward", Trace::Clock::now(), Trace::Clock::now());
  trace.write(dir.path() + "/trace.json");
  std::ifstream in(dir.path() + "/trace.json");
  EXPECT_EQ(Json::parse(in)["traceEvents"].size(), 4u);
  EXPECT_THROW(trace.write(dir.path() + "/no/trace.json"), DataError);
}

}  // namespace
}  // namespace laconic
