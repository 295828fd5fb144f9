#include "core/base/trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "tests/pairwise.h"
#include "tests/temp_folder.h"

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

TEST(Trace, WhatIsWrittenOnTheWayTakesNoArrowFromTheEnd) {
  const auto arrows = [](bool on_the_way) {
    Trace trace;
    const auto begin = Trace::Clock::now();
    Trace::Row& row = trace.row(0, "compute");
    row.add("before", "forward", begin, begin + std::chrono::nanoseconds(1));
    row.arrow_leaves(7);  // of a span that is still open
    if (on_the_way) trace.json(true);
    row.add("backward", "backward", begin + std::chrono::nanoseconds(2), Trace::Clock::now());
    const auto end = Trace::Clock::now();
    trace.row(0, "communication").add({.name = "sum", .category = "wait", .begin = end, .end = end, .arrows = {{7, end}}});
    std::vector<std::string> found;
    const Json all = Json::parse(trace.json());
    for (std::size_t i = 1; i < all["traceEvents"].size(); ++i)
      if (all["traceEvents"][i]["ph"] == "s") found.push_back(all["traceEvents"][i - 1]["name"]);
    return found;
  };
  EXPECT_EQ(arrows(false), std::vector<std::string>{"backward"});
  EXPECT_EQ(arrows(true), arrows(false));
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

TEST(Trace, OverlappingSpansGetLinesOfTheirOwn) {
  Trace trace;
  const auto t = Trace::Clock::now();
  const auto ms = [&](int n) { return t + std::chrono::milliseconds(n); };
  Trace::Row& row = trace.row(0, "communication");
  row.add("fc1", "message", ms(0), ms(2), 100, true);
  row.add("fc2", "message", ms(1), ms(3), 50, true);
  row.add("conv1", "message", ms(2), ms(4), 7, true);
  const auto spans = events(trace, "X");
  ASSERT_EQ(spans.size(), 3u);
  std::map<std::string, Json> by_name;
  for (const Json& span : spans) by_name[span["name"]] = span;
  EXPECT_NE(by_name["fc1"]["tid"], by_name["fc2"]["tid"]);
  EXPECT_EQ(by_name["fc1"]["tid"], by_name["conv1"]["tid"]);  // the first line is free again
  EXPECT_NEAR(by_name["fc2"]["dur"].get<double>(), 2000, 0.01);
  EXPECT_EQ(by_name["fc2"]["args"]["bytes"], 50);
}

TEST(Trace, PartsLieOnTheLineOfTheirSpan) {
  Trace trace;
  const auto t = Trace::Clock::now();
  const auto ms = [&](int n) { return t + std::chrono::milliseconds(n); };
  Trace::Row& row = trace.row(0, "communication");
  row.add("fc1", "message", ms(0), ms(4), 100, true);
  row.add({.name = "fc2",
           .category = "message",
           .begin = ms(1),
           .end = ms(3),
           .overlapping = true,
           .parts = {{.name = "from rank 1", .category = "hop", .begin = ms(1), .end = ms(2), .bytes = 9}}});
  const auto spans = events(trace, "X");
  ASSERT_EQ(spans.size(), 3u);
  EXPECT_EQ(spans[2]["name"], "from rank 1");
  EXPECT_EQ(spans[2]["tid"], spans[1]["tid"]);
  EXPECT_NE(spans[2]["tid"], spans[0]["tid"]);
}

/// "s x1, t y2": the phases of an arrow's places and the spans that they lie in, in the order of time.
std::string arrow(Trace& trace) {
  std::vector<std::pair<double, std::string>> places;
  const auto spans = events(trace, "X");
  std::set<std::string> ids;
  for (const char* phase : {"s", "t", "f"})
    for (const Json& place : events(trace, phase)) {
      ids.insert(place["id"].get<std::string>());
      const double ts = place["ts"];
      std::string in = "nowhere";
      double longest = 1e30;
      for (const Json& span : spans) {
        const double begin = span["ts"], length = span["dur"];
        if (span["tid"] == place["tid"] && begin <= ts && ts <= begin + length && length < longest)
          in = span["name"].get<std::string>(), longest = length;
      }
      places.emplace_back(ts, std::string(phase) + " " + in);
    }
  EXPECT_LE(ids.size(), 1u);
  std::sort(places.begin(), places.end());
  std::string text;
  for (const auto& [ts, place] : places) text += (text.empty() ? "" : ", ") + place;
  return text;
}

TEST(Trace, AnArrowLeadsFromBackwardThroughMessageAndUpdateToForward) {
  for (const bool inside : {true, false}) {  // submitted while the layer's backward still runs, or just after it
    Trace trace;
    Trace::Row &compute = trace.row(0, "compute"), &communication = trace.row(0, "communication");
    const auto now = [] {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      return Trace::Clock::now();
    };
    const std::uint64_t id = Trace::arrow_id({1, 2});
    compute.add("fc2", "backward", now(), now());
    const auto backward = now();
    if (inside) compute.arrow_leaves(id);
    compute.add("fc1", "backward", backward, now());
    if (!inside) compute.arrow_leaves(id);
    const auto message = now();
    communication.add({.name = "allreduce fc1",
                       .category = "message",
                       .begin = message,
                       .end = now(),
                       .overlapping = true,
                       .arrows = {{id, message}}});
    compute.add("conv1", "forward", now(), now());
    const auto forward = now();
    compute.arrow_arrives(id);
    const auto update = now();
    compute.add("fc1.weight", "update", update, now());
    now();
    compute.add("fc1 ", "forward", forward, now());
    compute.add("fc2", "forward", now(), now());
    EXPECT_EQ(arrow(trace), "s fc1, t allreduce fc1, t fc1.weight, f fc1 ") << inside;
  }
}

TEST(Trace, AnArrowThatGoesNowhereIsNotDrawn) {
  Trace trace;
  Trace::Row& row = trace.row(0, "compute");
  row.add("fc1", "backward", Trace::Clock::now(), Trace::Clock::now());
  row.arrow_leaves(7);
  row.arrow_arrives(8);
  row.forget_arrows();
  const auto begin = Trace::Clock::now();
  row.add("fc1", "forward", begin, Trace::Clock::now());
  EXPECT_EQ(arrow(trace), "");
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
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(Json::accept(trace.json()));
  }
  EXPECT_EQ(events(trace, "X").size(), 2000u);
}

TEST(Trace, ArrowsComeWhileItIsWritten) {
  Trace trace;
  std::atomic<int> under_way = 0;
  std::atomic<bool> written = false;
  constexpr std::uint64_t kMany = kSanitized ? 500 : 2000;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        Trace::Row& row = trace.row(rank, "compute");
        Trace::Thread here(row);
        for (std::uint64_t i = 0; !written; ++i) {
          Trace::Span span("step", "forward");
          row.arrow_leaves(i);  // from one rank to the other
          if (i == kMany) ++under_way;
          if (i >= kMany) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
    while (under_way < 2) std::this_thread::yield();
    for (int i = 0; i < 4; ++i) EXPECT_NO_THROW(EXPECT_TRUE(Json::accept(trace.json(true))));
    written = true;
  }
  EXPECT_FALSE(events(trace, "s").empty());
}

TEST(Trace, WritesItsJsonToAFile) {
  TempFolder dir;
  Trace trace;
  trace.row(0, "compute").add("a", "forward", Trace::Clock::now(), Trace::Clock::now());
  trace.write(dir.path() + "/trace.json");
  std::ifstream in(dir.path() + "/trace.json");
  EXPECT_EQ(Json::parse(in)["traceEvents"].size(), 5u);
  EXPECT_THROW(trace.write(dir.path() + "/no/trace.json"), DataError);
}

}  // namespace
}  // namespace laconic
