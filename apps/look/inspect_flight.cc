// laconic inspect flight: what each rank was at when a training ended otherwise than in order, and who waits for whom.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/common/result_table.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "core/base/error.h"
#include "dist/engine/flight.h"

namespace laconic {
namespace {

using dist::Flight;
using dist::FlightEvent;
using dist::FlightState;

constexpr double kLongSilence = 1;  // seconds; steps of slower trainings have an event of some rank more often

/// Who ends a training in which all wait wakes those that were stopped. So what counts is what came before the last
/// long time in which no rank had an event, if there was one.
struct Silence {
  std::int64_t begins_ns = 0;  // the last event before; or the last of all
  double seconds = 0;          // 0: there was none
};

Silence last_silence(const std::vector<Flight>& flights) {
  std::vector<std::int64_t> times;
  for (const Flight& flight : flights)
    for (const auto* events : {&flight.compute, &flight.communication})
      for (const FlightEvent& e : *events) times.push_back(e.time_ns);
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  for (std::size_t i = times.size() - 1; i > 0; --i)
    if (const double seconds = static_cast<double>(times[i] - times[i - 1]) / 1e9; seconds >= kLongSilence)
      return {times[i - 1], seconds};
  return {times.back(), 0};
}

Flight until(Flight flight, std::int64_t ns) {
  for (auto* events : {&flight.compute, &flight.communication})
    std::erase_if(*events, [&](const FlightEvent& e) { return e.time_ns > ns; });
  return flight;
}

struct Witness {
  Flight flight;          // until the silence began
  FlightState state;      // at that time
  double before_seconds;  // its last event came so long before the last of all

  int rank() const { return flight.header.rank; }
  std::string at() const {
    std::string text = state.step > 0 ? concat("step ", state.step) : "before the first step";
    return state.computes.empty() ? text : concat(text, ", ", state.computes);
  }
};

/// A message that a rank waits for and the sender has not sent, as far as the files tell.
struct Missing {
  int rank = 0;
  FlightState::Message message{};
  const FlightState::Operation* operation = nullptr;
};

std::vector<Missing> missing_messages(const std::vector<Witness>& all) {
  std::vector<Missing> missing;
  for (const Witness& w : all)
    for (const FlightState::Operation& o : w.state.under_way)
      for (const FlightState::Message& m : o.awaited) {
        const auto sender = std::find_if(all.begin(), all.end(), [&](const Witness& x) { return x.rank() == m.peer; });
        if (sender == all.end() || has_sent(sender->flight, w.rank(), o, m) == false)
          missing.push_back({w.rank(), m, &o});
      }
  return missing;
}

std::string told(const Witness& w) {
  if (w.state.under_way.empty()) return "nothing";
  const FlightState::Operation& o = w.state.under_way.front();
  std::string text = fmt::format("{}: {} and {} bytes came", o.name, plural(o.messages, "message"), o.bytes);
  if (const std::size_t more = w.state.under_way.size() - 1; more > 0)
    text += fmt::format(", and {}", plural(static_cast<std::int64_t>(more), "more operation"));
  return text;
}

/// Who waits for whom, and who keeps the others waiting, in sentences.
std::vector<std::string> conclusions(const std::vector<Witness>& all, const Silence& silence) {
  std::vector<std::string> sentences;
  if (silence.seconds > 0)
    sentences.push_back(fmt::format("Then nothing happened on any rank for {:.1f} s.", silence.seconds));
  std::set<int> awaited, waiting;
  std::set<std::pair<int, int>> told_of;
  for (const Missing& m : missing_messages(all)) {
    const int from = m.message.peer;
    awaited.insert(from), waiting.insert(m.rank);
    if (told_of.insert({m.rank, from}).second)
      sentences.push_back(concat("Rank ", m.rank, " waits for message ", m.message.number, " of rank ", from, " in ",
                                 m.operation->name, "."));
  }
  for (int r = 0; r < all[0].flight.header.ranks; ++r) {
    const auto w = std::find_if(all.begin(), all.end(), [r](const Witness& x) { return x.rank() == r; });
    if (w == all.end())
      sentences.push_back(concat("Rank ", r, " left nothing here."));
    else if (awaited.contains(r) && !waiting.contains(r))
      sentences.push_back(
          fmt::format("Rank {} keeps the others waiting: {}; its last event came {:.3f} s before the last of all.", r,
                      w->at(), w->before_seconds));
  }
  if (awaited.empty()) sentences.emplace_back("No rank waits for a message that was not sent.");
  return sentences;
}

nlohmann::ordered_json awaited_in(const FlightState::Operation& operation) {
  auto all = nlohmann::ordered_json::array();
  for (const FlightState::Message& m : operation.awaited) all.push_back({{"rank", m.peer}, {"message", m.number}});
  return all;
}

void print_events(const std::vector<Flight>& all, std::int64_t newest, std::size_t count) {
  static constexpr const char* kKinds[] = {"",       "step",    "forward", "backward", "submits", "waits for",
                                           "begins", "expects", "came",    "sends",    "ends",    "fails"};
  static_assert(std::size(kKinds) == static_cast<std::size_t>(FlightEvent::Kind::fails) + 1);
  struct Line {
    std::int64_t time;
    int rank;
    const FlightEvent* event;
  };
  std::vector<Line> lines;
  for (const Flight& f : all)
    for (const auto* events : {&f.compute, &f.communication})
      for (const FlightEvent& e : *events) lines.push_back({e.time_ns, f.header.rank, &e});
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.time < b.time; });
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  fmt::print("\n");
  for (const auto& [time, rank, e] : lines) {
    std::string more;
    if (e->peer >= 0) more = fmt::format(" rank {}, message {}, {} bytes", e->peer, e->number, e->bytes);
    if (e->kind == FlightEvent::Kind::step) more = fmt::format(" {}", e->number);
    fmt::print("{:12.6f} s  rank {}  {:9}  {}{}\n", static_cast<double>(time - newest) / 1e9, rank,
               kKinds[static_cast<std::size_t>(e->kind)], e->text(), more);
  }
}

}  // namespace

int inspect_flight(const std::vector<std::string>& arguments) {
  std::string folder;
  std::size_t events = 0;
  bool json = false;
  CLI::App app(
      "What each rank was at when a training with --save DIR ended otherwise than in order, and who waited for whom. "
      "Each rank keeps its last events in DIR/flight, which a training that ends in order takes away; the one that "
      "goes on leaves those of the one before in DIR/flight/before.",
      "laconic inspect flight");
  app.add_option("dir", folder, "what --save wrote to")->required()->type_name("DIR");
  app.add_option("--events", events, "the last N events of all ranks besides, by time [0]")->type_name("N");
  app.add_flag("--json", json, "one object");
  if (const auto done = parse_tool(app, arguments)) return *done;
  const dist::Flights found = dist::read_flights(folder);
  const std::vector<Flight>& flights = found.ranks;
  for (const std::string& sentence : found.unreadable) fmt::print(stderr, "laconic: note: passed over: {}\n", sentence);
  const Silence silence = last_silence(flights);
  std::vector<Witness> all;
  for (const Flight& flight : flights) {
    Flight until_then = until(flight, silence.begins_ns);
    if (until_then.compute.empty() && until_then.communication.empty()) until_then = flight;  // another clock
    FlightState state = dist::state_of(until_then);
    state.failure = dist::state_of(flight).failure;
    const double before = static_cast<double>(silence.begins_ns - state.last_ns) / 1e9;
    all.push_back({std::move(until_then), std::move(state), before});
  }

  ResultTable table(false);
  for (const Witness& w : all) {
    auto under_way = nlohmann::ordered_json::array();
    for (const FlightState::Operation& o : w.state.under_way)
      under_way.push_back(
          {{"operation", o.name}, {"messages", o.messages}, {"bytes", o.bytes}, {"awaited", awaited_in(o)}});
    table.add({{"rank", "rank", w.rank()},
               {"host", "host", std::string(w.flight.header.host)},
               {"s before the last event", "before_seconds", w.before_seconds, "{:.3f}"},
               {"", "step", w.state.step},
               {"at", "at", w.at()},
               {"under way", "under_way", under_way, told(w)},
               {"", "failure", w.state.failure}});
  }
  const std::vector<std::string> sentences = conclusions(all, silence);
  if (json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"folder", found.folder},
                                              {"silence_seconds", silence.seconds},
                                              {"ranks", table.objects()},
                                              {"conclusions", sentences}}
                           .dump());
    return 0;
  }
  fmt::print("{}:\n{}\n", found.folder, table.text());
  for (const std::string& sentence : sentences) fmt::print("{}\n", sentence);
  if (events > 0) print_events(flights, silence.begins_ns, events);
  return 0;
}

}  // namespace laconic
