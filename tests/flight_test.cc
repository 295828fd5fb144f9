// The flight recorder: what it keeps, what a rank was at, and files that are damaged.
#include "dist/engine/flight.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "dist/collective/ring_allreduce.h"
#include "tests/error_of.h"
#include "tests/fuzz.h"
#include "tests/on_ranks.h"
#include "tests/temp_folder.h"

namespace laconic::dist {
namespace {

using Happens = FlightEvent::Kind;

TEST(Flight, KeepsTheLastEventsOfEachThreadInOrder) {
  const TempFolder folder;
  const auto recorder = FlightRecorder::open(folder.path(), 2, 3);
  ASSERT_NE(recorder, nullptr);
  for (std::uint32_t i = 0; i < 3 * kFlightEvents + 5; ++i) recorder->compute(Happens::step, "", i);
  FlightEvent came;
  came.kind = Happens::came, came.peer = 1, came.bytes = 4096;
  recorder->communication(came, std::string(100, 'x'));
  const std::vector<Flight> flights = read_flights(folder.path()).ranks;
  ASSERT_EQ(flights.size(), 1u);
  const Flight& f = flights[0];
  EXPECT_EQ(f.header.rank, 2);
  EXPECT_EQ(f.header.ranks, 3);
  ASSERT_EQ(f.compute.size(), kFlightEvents - 1);
  for (std::size_t i = 0; i < f.compute.size(); ++i) {
    EXPECT_EQ(f.compute[i].number, 2 * kFlightEvents + 6 + i);
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
  std::vector<Flight> flights = read_flights(save.path()).ranks;
  ASSERT_EQ(flights.size(), 1u);  // rank 1 was of a training of two
  EXPECT_EQ(flights[0].compute[0].number, 4u);
  flights = read_flights(folder + "/before").ranks;
  ASSERT_EQ(flights.size(), 2u);
  for (const Flight& flight : flights) EXPECT_EQ(flight.compute[0].number, 17u);
  again->forget();
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST(Flight, WhatEndsInOrderLeavesNothing) {
  const TempFolder save;
  const auto one = FlightRecorder::open(save / "flight", 0, 2), other = FlightRecorder::open(save / "flight", 1, 2);
  one->forget();
  other->forget();
  EXPECT_FALSE(std::filesystem::exists(save / "flight"));
  EXPECT_NE(
      error_of<DataError>([&] { (void)read_flights(save.path()); }).find("no flight recorder has left anything here"),
      std::string::npos);
}

TEST(Flight, OnAFileSystemOfOtherMachinesALinkLeadsToThisOne) {
  const TempFolder save;
  const std::string folder = save / "flight", path = folder + "/rank-0";
  FlightRecorder::open(folder, 0, 1, true)->compute(Happens::step, "", 5);
  EXPECT_TRUE(std::filesystem::is_symlink(path));
  EXPECT_EQ(read_flights(save.path()).ranks.at(0).compute.at(0).number, 5u);
  const auto again = FlightRecorder::open(folder, 0, 1, true);
  const std::filesystem::path place = std::filesystem::read_symlink(path);
  EXPECT_EQ(place.parent_path(), "/dev/shm");
  EXPECT_EQ(read_flights(folder + "/before").ranks.at(0).compute.at(0).number, 5u);
  again->forget();
  EXPECT_FALSE(std::filesystem::exists(place));
  EXPECT_FALSE(std::filesystem::exists(folder));

  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink("/dev/shm/laconic-of-another-machine", path);
  EXPECT_NE(
      error_of<DataError>([&] { read_flights(save.path()); }).find("is on another machine, in /dev/shm/laconic-of"),
      std::string::npos);
  FlightRecorder::open(folder, 1, 2)->compute(Happens::step, "", 6);
  const Flights found = read_flights(save.path());
  EXPECT_EQ(found.ranks.size(), 1u);
  EXPECT_EQ(found.unreadable.size(), 1u);
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
          if (w.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(6000));
        },
        4.0);  // a rank that gets no processor for half of it would count as silent
  });
  EXPECT_NE(sentence.find("saw nothing move"), std::string::npos) << sentence;
  const std::vector<Flight> flights = read_flights(folder.path()).ranks;
  ASSERT_EQ(flights.size(), 2u);
  const FlightState zero = state_of(flights[0]), one = state_of(flights[1]);
  EXPECT_EQ(zero.computes, "waits for allreduce conv2");
  ASSERT_EQ(zero.under_way.size(), 1u);
  EXPECT_EQ(zero.under_way[0].name, "allreduce conv2");
  ASSERT_FALSE(zero.under_way[0].awaited.empty());
  const FlightState::Message missing = zero.under_way[0].awaited[0];
  EXPECT_EQ(missing.peer, 1);
  EXPECT_EQ(has_sent(flights[1], 0, zero.under_way[0], missing), false);
  const auto sent = std::find_if(flights[1].communication.begin(), flights[1].communication.end(),
                                 [](const FlightEvent& e) { return e.kind == Happens::sends; });
  ASSERT_NE(sent, flights[1].communication.end());
  FlightState::Operation first{.name = "allreduce conv1", .slot = zero.under_way[0].slot - 1, .run = sent->run};
  const FlightState::Message message{.peer = 1, .slot = sent->slot, .number = sent->number};
  EXPECT_EQ(has_sent(flights[1], 0, first, message), true);
  ++first.run;
  EXPECT_EQ(has_sent(flights[1], 0, first, message), false);
  EXPECT_EQ(zero.failure.find("engine: rank 0 of 2 saw nothing move"), 0u) << zero.failure;
  EXPECT_EQ(one.computes, "in backward at conv2");
  EXPECT_TRUE(one.under_way.empty());
}

TEST(Flight, ADamagedFileIsAnErrorOrIsRead) {
  const TempFolder folder;
  const auto recorder = FlightRecorder::open(folder.path(), 0, 1);
  FlightEvent event;
  event.slot = 20;
  for (std::uint32_t i = 0; i < 2 * kFlightEvents; ++i) {
    event.kind = i % 3 == 0 ? Happens::begins : i % 3 == 1 ? Happens::expects : Happens::sends, event.run = i / 3;
    recorder->communication(event, "allreduce");
  }
  const std::string path = folder / "rank-0", whole = file_text(path);
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
      for (const Flight& f : read_flights(folder.path()).ranks)
        for (const FlightState::Operation& o : state_of(f).under_way)
          for (const FlightState::Message& m : o.awaited) has_sent(f, 0, o, m);
    } catch (const DataError&) {
    }
  });
}

}  // namespace
}  // namespace laconic::dist
