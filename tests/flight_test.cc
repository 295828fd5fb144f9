// The flight recorder: what it keeps, what a rank was at, and files that are damaged.
#include "dist/flight.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "dist/collective/ring_allreduce.h"
#include "tests/error_of.h"
#include "tests/fuzz.h"
#include "tests/on_ranks.h"
#include "tests/temp_folder.h"

namespace laconic::dist {
namespace {

using Happens = FlightEvent::Kind;

std::string text_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Flight, KeepsTheLastEventsOfEachThreadInOrder) {
  const TempFolder folder;
  const auto recorder = FlightRecorder::open(folder.path(), 2, 3);
  ASSERT_NE(recorder, nullptr);
  for (std::uint32_t i = 0; i < 3 * kFlightEvents + 5; ++i) recorder->compute(Happens::step, "", i);
  recorder->communication(Happens::came, std::string(100, 'x'), 1, 4096, 7);
  const std::vector<Flight> flights = read_flights(folder.path());
  ASSERT_EQ(flights.size(), 1u);
  const Flight& f = flights[0];
  EXPECT_EQ(f.header.rank, 2);
  EXPECT_EQ(f.header.ranks, 3);
  ASSERT_EQ(f.compute.size(), kFlightEvents);
  for (std::size_t i = 0; i < kFlightEvents; ++i) {
    EXPECT_EQ(f.compute[i].number, 2 * kFlightEvents + 5 + i);
    EXPECT_TRUE(i == 0 || f.compute[i].time_ns >= f.compute[i - 1].time_ns);
  }
  ASSERT_EQ(f.communication.size(), 1u);
  EXPECT_EQ(f.communication[0].text(), std::string(FlightEvent::kNameBytes, 'x'));
  EXPECT_EQ(f.communication[0].bytes, 4096u);
  EXPECT_EQ(f.communication[0].peer, 1);
}

TEST(Flight, TheTrainingBeforeStaysToBeReadUntilThereIsAnother) {
  const TempFolder save;
  const std::string folder = save / "flight";
  FlightRecorder::open(folder, 0, 2)->compute(Happens::step, "", 17);
  FlightRecorder::open(folder, 1, 2)->compute(Happens::step, "", 17);
  const auto again = FlightRecorder::open(folder, 0, 1);
  again->compute(Happens::step, "", 4);
  std::vector<Flight> flights = read_flights(save.path());
  ASSERT_EQ(flights.size(), 1u);  // rank 1 was of a training of two
  EXPECT_EQ(flights[0].compute[0].number, 4u);
  again->forget();
  std::filesystem::remove(folder + "/rank-1");
  flights = read_flights(save.path());
  ASSERT_EQ(flights.size(), 1u);
  EXPECT_EQ(flights[0].compute[0].number, 17u);
}

TEST(Flight, WhatEndsInOrderLeavesNothing) {
  const TempFolder save;
  const auto one = FlightRecorder::open(save / "flight", 0, 2), other = FlightRecorder::open(save / "flight", 1, 2);
  one->forget();
  other->forget();
  EXPECT_FALSE(std::filesystem::exists(save / "flight"));
  EXPECT_NE(error_of<DataError>([&] { read_flights(save.path()); }).find("no flight recorder has left anything here"),
            std::string::npos);
}

TEST(Flight, WhereThereIsNoPlaceNothingIsRecorded) { EXPECT_EQ(FlightRecorder::open("/proc/laconic", 0, 1), nullptr); }

TEST(Flight, TellsWhoWaitsForWhom) {
  const TempFolder folder;
  const std::string sentence = error_of<Error>([&] {
    on_ranks(
        2,
        [&](Worker& w) {
          w.engine.record(FlightRecorder::open(folder.path(), w.rank, w.size));
          const int slot = w.engine.reserve_slots(2);
          std::vector<float> x(1000, 1.0f);
          const auto sum = [&](int i, const char* name) {
            w.engine.wait(w.engine.submit({.name = name, .slot = slot + i, .body = [&](Communicator& comm) {
                                             return ring_allreduce(comm, slice(x));
                                           }}));
          };
          sum(0, "allreduce conv1");
          const std::string layer = "conv2";
          w.engine.at(Engine::Phase::backward, layer);
          if (w.rank == 0) sum(1, "allreduce conv2");
          w.engine.forget_place();
          if (w.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        },
        1.0);
  });
  EXPECT_NE(sentence.find("saw nothing move"), std::string::npos) << sentence;
  const std::vector<Flight> flights = read_flights(folder.path());
  ASSERT_EQ(flights.size(), 2u);
  const FlightState zero = state_of(flights[0]), one = state_of(flights[1]);
  EXPECT_EQ(zero.computes, "waits for allreduce conv2");
  ASSERT_EQ(zero.under_way.size(), 1u);
  EXPECT_EQ(zero.under_way[0].name, "allreduce conv2");
  ASSERT_FALSE(zero.under_way[0].awaited.empty());
  const auto [from, number] = zero.under_way[0].awaited[0];
  EXPECT_EQ(from, 1);
  EXPECT_FALSE(has_sent(flights[1], zero.under_way[0], 0, number));
  FlightState::Operation first{.name = "allreduce conv1", .run = 1};  // of its slot
  EXPECT_TRUE(has_sent(flights[1], first, 0, 1));
  first.run = 2;
  EXPECT_FALSE(has_sent(flights[1], first, 0, 1));
  EXPECT_EQ(zero.failure.find("engine: rank 0 of 2 saw nothing move"), 0u) << zero.failure;
  EXPECT_EQ(one.computes, "in backward at conv2");
  EXPECT_TRUE(one.under_way.empty());
}

TEST(Flight, ADamagedFileIsAnErrorOrIsRead) {
  const TempFolder folder;
  const auto recorder = FlightRecorder::open(folder.path(), 0, 1);
  for (int i = 0; i < 3000; ++i) recorder->communication(Happens::begins, "allreduce", 0, 5);
  const std::string path = folder / "rank-0", whole = text_of_file(path);
  fuzz(200, [&](Random& random) {
    std::string text = whole;
    switch (random.below(3)) {
      case 0:
        text.resize(random.below(static_cast<std::uint32_t>(text.size())));
        break;
      case 1:  // its head
        text[random.below(sizeof(FlightHeader))] = static_cast<char>(random.bits());
        break;
      default:
        for (int i = 0; i < 1000; ++i)
          text[random.below(static_cast<std::uint32_t>(text.size()))] = static_cast<char>(random.bits());
    }
    std::ofstream(path, std::ios::binary) << text;
    try {
      for (const Flight& f : read_flights(folder.path())) state_of(f);
    } catch (const DataError&) {
    }
  });
}

}  // namespace
}  // namespace laconic::dist
