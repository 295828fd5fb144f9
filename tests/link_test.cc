#include "dist/transport/link.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/error.h"

namespace laconic::dist {
namespace {

using namespace std::chrono_literals;
using Kind = SwitchModel::Event::Kind;

LinkTime at(LinkDuration d) { return LinkTime(1000s) + d; }

/// A model, and what it has told.
struct Told {
  explicit Told(const std::vector<LinkSpec>& ports) : model(ports) {}
  explicit Told(SwitchModel given) : model(std::move(given)) {}
  void advance(LinkDuration to) { model.advance(at(to), events); }
  LinkDuration when(SwitchModel::Id id, Kind kind) const {
    for (const auto& e : events)
      if (e.message == id && e.kind == kind) return e.at - at(0ns);
    ADD_FAILURE() << "message " << id << " has no such event";
    return -1ns;
  }
  LinkDuration sent(SwitchModel::Id id) const { return when(id, Kind::sent); }
  LinkDuration due(SwitchModel::Id id) const { return when(id, Kind::due); }
  SwitchModel model;
  std::vector<SwitchModel::Event> events;
};

// 8 Mbit/s: one byte takes a microsecond. Segments are of 1,500 bytes.
const LinkSpec kSlow{.bits_per_second = 8'000'000, .latency = 100us};

TEST(LinkSpec, IsReadWithAndWithoutUnits) {
  const auto parse = [](const char* text) { return LinkSpec::parse(text, "--link"); };
  EXPECT_EQ(parse("100mbit,1ms"), (LinkSpec{100'000'000, 1ms, 0ms}));
  EXPECT_EQ(parse("1gbit,50us,10us"), (LinkSpec{1'000'000'000, 50us, 10us}));
  EXPECT_EQ(parse("2.5Gbit,0"), (LinkSpec{2'500'000'000, 0ms, 0ms}));
  EXPECT_EQ(parse("64kbit,1.5ms,100ns"), (LinkSpec{64'000, 1500us, 100ns}));
  EXPECT_EQ(parse("1e6,0.002"), (LinkSpec{1'000'000, 2ms, 0ms}));
  EXPECT_EQ(parse("100mbit,1ms").to_string(), "100 Mbit/s, 1 ms");
  EXPECT_EQ(parse("1gbit,50us,10us").to_string(), "1 Gbit/s, 50 us + 0 to 10 us");
}

TEST(LinkSpec, WhatIsNoLinkIsRefusedWithAnExample) {
  const auto sentence = [](const std::string& text) -> std::string {
    try {
      LinkSpec::parse(text, "--link");
    } catch (const UsageError& e) {
      return e.what();
    }
    return "accepted";
  };
  const std::string advice = " (--link): give RATE,LATENCY or RATE,LATENCY,JITTER, as 100mbit,1ms or 1gbit,50us,10us";
  EXPECT_EQ(sentence("100mbit"), "'100mbit' is not a link" + advice);
  EXPECT_EQ(sentence("100mbit,1ms,1ms,1ms"), "'100mbit,1ms,1ms,1ms' is not a link" + advice);
  EXPECT_EQ(sentence("fast,1ms"), "'fast' is not a rate" + advice);
  EXPECT_EQ(sentence("100mb,1ms"), "'100mb' is not a rate" + advice);
  EXPECT_EQ(sentence("-1gbit,1ms"), "'-1gbit' is not a rate" + advice);
  EXPECT_EQ(sentence("nan,1ms"), "'nan' is not a rate" + advice);
  EXPECT_EQ(sentence("0,1ms"), "a rate of 0 is not between 1kbit and 10000gbit" + advice);
  EXPECT_EQ(sentence("1gbit,"), "'' is not a latency" + advice);
  EXPECT_EQ(sentence("1gbit,1m"), "'1m' is not a latency" + advice);
  EXPECT_EQ(sentence("1gbit,2000s"), "a latency of 2000s is above 60 s" + advice);
  EXPECT_EQ(sentence("1gbit,1ms,x"), "'x' is not a jitter" + advice);
}

TEST(LinkOptions, AnExceptionMustNameAWorkerThatIsThere) {
  LinkOptions options{.all = kSlow, .of = {{2, {.bits_per_second = 1'000'000}}}};
  Told link(options.model(3));
  const auto quick = link.model.send(0, 1, 100, at(0us)), slow = link.model.send(2, 1, 100, at(0us));
  link.advance(1s);
  EXPECT_EQ(link.sent(quick), 100us);
  EXPECT_EQ(link.sent(slow), 800us);
  EXPECT_THROW(options.model(2), UsageError);
}

/// Two hosts of two ranks and one of a single one. 8 Mbit/s inside, 4 Mbit/s and another latency between them.
TEST(LinkOptions, RanksOfAHostShareItsPortToOtherHosts) {
  const LinkOptions options{.all = kSlow, .per_host = 2, .between = {.bits_per_second = 4'000'000, .latency = 300us}};
  Told link(options.model(5));
  const auto inside = link.model.send(0, 1, 1000, at(0us));  // leaves by its own port
  const auto first = link.model.send(0, 2, 1000, at(0us)), second = link.model.send(1, 4, 1000, at(0us));
  const auto back = link.model.send(2, 0, 500, at(0us));
  link.advance(1s);
  EXPECT_EQ(link.sent(inside), 1000us);
  EXPECT_EQ(link.due(inside), 1100us);
  EXPECT_EQ(link.sent(first), 2000us);
  EXPECT_EQ(link.due(first), 2300us);
  EXPECT_EQ(link.sent(second), 4000us) << "the second rank's message waits for the port that both share";
  EXPECT_EQ(link.due(second), 4300us);
  EXPECT_EQ(link.due(back), 1300us) << "both directions at once";
}

TEST(LinkOptions, AHostMayHaveRoomForMoreRanksThanThereAre) {
  const LinkOptions options{
      .all = kSlow, .per_host = std::numeric_limits<int>::max(), .between = {.bits_per_second = 1, .latency = 1s}};
  Told link(options.model(2));
  const auto inside = link.model.send(0, 1, 1000, at(0us));
  link.advance(1s);
  EXPECT_EQ(link.sent(inside), 1000us);
}

/// With one rank a host nothing is inside.
TEST(LinkOptions, HostsOfOneRankAreCables) {
  const LinkSpec other{.bits_per_second = 1'000'000, .latency = 5ms};
  const LinkOptions hosts{.all = other, .per_host = 1, .between = kSlow}, cables{.all = kSlow};
  std::mt19937 random(3);
  Told one(hosts.model(4)), two(cables.model(4));
  for (int i = 0; i < 200; ++i) {
    const int from = static_cast<int>(random() % 4), to = static_cast<int>((from + 1 + random() % 3) % 4);
    const std::size_t bytes = random() % 5000;
    const LinkTime stamp = at(std::chrono::microseconds(random() % 20000));
    one.model.send(from, to, bytes, stamp), two.model.send(from, to, bytes, stamp);
  }
  one.advance(10s), two.advance(10s);
  ASSERT_EQ(one.events.size(), two.events.size());
  ASSERT_EQ(one.events.size(), 400u);
  for (std::size_t i = 0; i < one.events.size(); ++i) {
    EXPECT_EQ(one.events[i].message, two.events[i].message);
    EXPECT_EQ(one.events[i].at, two.events[i].at);
  }
}

TEST(SwitchModel, AMessageAloneIsSentAfterItsBytesAndDueALatencyLater) {
  Told link({kSlow, kSlow});
  const auto id = link.model.send(0, 1, 10'000, at(0us));
  EXPECT_EQ(link.model.next_event(0), at(10'000us));
  EXPECT_EQ(link.model.next_event(1), at(10'100us));
  link.advance(20ms);
  EXPECT_EQ(link.sent(id), 10'000us);
  EXPECT_EQ(link.due(id), 10'100us);
  EXPECT_FALSE(link.model.next_event(0) || link.model.next_event(1));
}

TEST(SwitchModel, AnEmptyMessageTakesTheLatency) {
  Told link({kSlow, kSlow});
  const auto id = link.model.send(0, 1, 0, at(5us));
  link.advance(1ms);
  EXPECT_EQ(link.sent(id), 5us);
  EXPECT_EQ(link.due(id), 105us);
}

TEST(SwitchModel, AMessageStampedInThePastStartsThereIfThePortWasFree) {
  Told link({kSlow, kSlow});
  link.advance(5000us);
  const auto first = link.model.send(0, 1, 1500, at(4000us));
  const auto second = link.model.send(0, 1, 1500, at(4200us));
  link.advance(9000us);
  EXPECT_EQ(link.due(first), 5600us);
  EXPECT_EQ(link.due(second), 7100us);
}

TEST(SwitchModel, AMessageStampedInTheFutureWaitsAndLetsOthersPass) {
  Told link({kSlow, kSlow});
  const auto later = link.model.send(0, 1, 1500, at(2000us));
  const auto now = link.model.send(0, 1, 1000, at(0us));
  link.advance(9000us);
  EXPECT_EQ(link.sent(now), 1000us);
  EXPECT_EQ(link.sent(later), 3500us);
}

TEST(SwitchModel, BothDirectionsAreFree) {
  Told link({kSlow, kSlow});
  const auto there = link.model.send(0, 1, 6000, at(0us)), back = link.model.send(1, 0, 6000, at(0us));
  link.advance(9000us);
  EXPECT_EQ(link.due(there), 6100us);
  EXPECT_EQ(link.due(back), 6100us);
}

TEST(SwitchModel, MessagesOnTheWireTakeTurnsSoThatASmallOneIsNotStuckBehindALargeOne) {
  Told link({kSlow, kSlow, kSlow});
  const auto large = link.model.send(0, 1, 15'000, at(0us));
  link.advance(1000us);  // the first segment of the large one is on the wire
  const auto small = link.model.send(0, 2, 100, at(1000us));
  link.advance(99ms);
  EXPECT_EQ(link.sent(small), 3100us);  // the large one has the first turn, then the small one
  EXPECT_EQ(link.due(small), 3200us);
  EXPECT_EQ(link.sent(large), 15'100us);  // nothing was lost
}

TEST(SwitchModel, TwoEqualMessagesShareThePortEvenly) {
  Told link({kSlow, kSlow, kSlow});
  const auto a = link.model.send(0, 1, 6000, at(0us)), b = link.model.send(0, 2, 6000, at(0us));
  link.advance(99ms);
  EXPECT_EQ(link.sent(a), 10'500us);  // a b a b a b a b
  EXPECT_EQ(link.sent(b), 12'000us);
}

TEST(SwitchModel, TwoSendersShareTheReceiversPort) {
  Told link({kSlow, kSlow, kSlow});
  const auto a = link.model.send(0, 2, 3000, at(0us)), b = link.model.send(1, 2, 3000, at(0us));
  link.advance(99ms);
  EXPECT_EQ(link.sent(a), 3000us);
  EXPECT_EQ(link.sent(b), 3000us);
  // Segments arrive at 100, 100, 1600, 1600 us and are served in this order, 1500 us each.
  EXPECT_EQ(link.due(a), 4600us);
  EXPECT_EQ(link.due(b), 6100us);
}

TEST(SwitchModel, TheSlowerEndDecides) {
  const LinkSpec slower{.bits_per_second = 4'000'000, .latency = 300us};
  Told link({kSlow, slower});
  const auto in = link.model.send(0, 1, 3000, at(0us)), out = link.model.send(1, 0, 3000, at(0us));
  link.advance(99ms);
  EXPECT_EQ(link.sent(in), 3000us);
  EXPECT_EQ(link.due(in), 6300us);  // 300 us, then 2 us a byte
  EXPECT_EQ(link.sent(out), 6000us);
  EXPECT_EQ(link.due(out), 6300us);
}

TEST(SwitchModel, ARingTakesWhatItsFormulaSays) {
  // 4 ranks, blocks of 16 KiB, 1 Gbit/s and 50 us: 6 (50 + 131.072) us. Each message is stamped with the due time of
  // the one before; however late the model is asked, nothing adds up.
  const LinkSpec spec{.bits_per_second = 1'000'000'000, .latency = 50us};
  Told link({spec, spec, spec, spec});
  std::vector<LinkDuration> ready(4, 0ns);
  for (int step = 0; step < 6; ++step) {
    std::vector<SwitchModel::Id> ids;
    for (int r = 0; r < 4; ++r)
      ids.push_back(link.model.send(r, (r + 1) % 4, 16384, at(ready[static_cast<std::size_t>(r)])));
    link.advance((step + 1) * 300us);
    for (int r = 0; r < 4; ++r)
      ready[static_cast<std::size_t>((r + 1) % 4)] = link.due(ids[static_cast<std::size_t>(r)]);
  }
  for (int r = 0; r < 4; ++r) EXPECT_EQ(ready[static_cast<std::size_t>(r)], 6 * 181'072ns);
}

TEST(SwitchModel, JitterIsDrawnEvenlyAndTheSameOnEveryRun) {
  const LinkSpec spec{.bits_per_second = 1'000'000'000, .latency = 1ms, .jitter = 2ms};
  std::vector<std::vector<LinkDuration>> runs;
  for (int run = 0; run < 2; ++run) {
    Told link({spec, spec});
    std::vector<LinkDuration> late;
    for (int i = 0; i < 500; ++i) {
      const auto id = link.model.send(0, 1, 0, at(i * 10ms));
      link.advance((i + 1) * 10ms);
      late.push_back(link.due(id) - i * 10ms - 1ms);
    }
    runs.push_back(late);
  }
  EXPECT_EQ(runs[0], runs[1]);
  LinkDuration sum{0};
  for (LinkDuration d : runs[0]) {
    EXPECT_GE(d, 0ns);
    EXPECT_LE(d, 2ms);
    sum += d;
  }
  EXPECT_NEAR(static_cast<double>(sum.count()) / 500, 1e6, 1e5);  // 4 standard deviations of the mean
}

TEST(SwitchModel, ACancelledMessageLeavesThePortToOthersAndIsNeverTold) {
  Told link({kSlow, kSlow});
  const auto cancelled = link.model.send(0, 1, 15'000, at(0us)), other = link.model.send(0, 1, 3000, at(0us));
  link.advance(1000us);  // one segment has left
  link.model.cancel(cancelled);
  link.advance(99ms);
  EXPECT_EQ(link.sent(other), 4500us);
  for (const auto& e : link.events) EXPECT_NE(e.message, cancelled);
}

TEST(SwitchModel, NeverTellsAnEventLaterThanItsPredictionAndNeverExceedsTheRate) {
  // Random traffic, asked for only when the model's own predictions say so, as a sleeping thread does.
  std::mt19937 random(7);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 20; ++round) {
    std::vector<LinkSpec> ports;
    for (int r = 0; r < 4; ++r)
      ports.push_back({.bits_per_second = 1'000'000 * (1 + draw(20)),
                       .latency = draw(500) * 1us,
                       .jitter = draw(2) * draw(100) * 1us});
    Told link(ports);
    struct Sent {
      int from, to;
      std::size_t bytes;
      LinkDuration stamp;
    };
    std::map<SwitchModel::Id, Sent> all;
    LinkDuration now{0};
    int wakes = 0;
    while (all.size() < 60 || link.model.next_event(0) || link.model.next_event(1) || link.model.next_event(2) ||
           link.model.next_event(3)) {
      if (all.size() < 60) {
        const Sent s{draw(4), draw(4), static_cast<std::size_t>(draw(20'000)), now - draw(300) * 1us};
        all[link.model.send(s.from, s.to, s.bytes, at(s.stamp))] = s;
      }
      const std::size_t before = link.events.size();
      std::optional<LinkTime> next;
      for (int r = 0; r < 4; ++r)
        if (const auto t = link.model.next_event(r); t && (!next || *t < *next)) next = t;
      ASSERT_TRUE(next);
      now = std::max(now + 1ns, *next - at(0ns));
      if (all.size() < 60 && draw(2) == 0) now = std::max(now - 500us, LinkDuration(0));  // asked before its time
      link.advance(now);
      for (std::size_t i = before; i < link.events.size(); ++i) {
        const Sent& s = all[link.events[i].message];
        if (s.from == s.to) continue;
        EXPECT_GE(link.events[i].at, *next);  // what was predicted was not too late
      }
      ASSERT_LT(++wakes, 10'000);
    }
    EXPECT_EQ(link.events.size(), 2 * all.size());
    std::vector<double> sent_bits(4, 0.0);
    std::vector<LinkDuration> last(4, 0ns), first(4, 1000s);
    for (const auto& [id, s] : all) {
      if (s.from == s.to) continue;
      const auto from = static_cast<std::size_t>(s.from);
      sent_bits[from] += 8.0 * static_cast<double>(s.bytes);
      last[from] = std::max(last[from], link.sent(id));
      first[from] = std::min(first[from], s.stamp);
      EXPECT_GE(link.due(id),
                link.sent(id) + std::max(ports[from].latency, ports[static_cast<std::size_t>(s.to)].latency));
    }
    for (std::size_t r = 0; r < 4; ++r) {
      if (sent_bits[r] == 0) continue;
      const double seconds = static_cast<double>((last[r] - first[r]).count()) * 1e-9;
      EXPECT_GE(seconds * static_cast<double>(ports[r].bits_per_second), sent_bits[r] * (1 - 1e-9));
    }
  }
}

}  // namespace
}  // namespace laconic::dist
