#include "dist/transport/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>

#include "core/base/parse.h"
#include "core/base/random.h"

namespace laconic::dist {
namespace {

struct UnitName {
  const char* name;
  double factor;
};
using UnitNames = std::initializer_list<UnitName>;

/// A number and a unit. Nothing if it is not that.
std::optional<double> with_unit(const std::string& text, UnitNames units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789.+-e"), text.size());
  const auto value = number_from<double>(text.substr(0, digits));
  for (const UnitName& unit : units)
    if (value && *value >= 0 && text.substr(digits) == unit.name) return *value * unit.factor;
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& what, const std::string& where) {
  throw UsageError(
      concat(what, " (", where, "): give RATE,LATENCY or RATE,LATENCY,JITTER, as 100mbit,1ms or 1gbit,50us,10us"));
}

LinkDuration time_from(const std::string& text, const char* what, const std::string& where) {
  const auto ns = with_unit(text, {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"", 1e9}});
  if (!ns) refuse(concat("'", text, "' is not a ", what), where);
  if (*ns > 60e9) refuse(concat("a ", what, " of ", text, " is above 60 s"), where);
  return LinkDuration(std::llround(*ns));
}

std::int64_t segment_ns(std::size_t bytes, std::int64_t rate) {  // rounded up; no overflow up to 64 KiB
  return (static_cast<std::int64_t>(bytes) * 8'000'000'000 + rate - 1) / rate;
}

/// How long a port needs for bytes that come in segments.
LinkDuration wire_time(std::size_t bytes, std::size_t segment, std::int64_t rate) {
  return LinkDuration(static_cast<std::int64_t>(bytes / segment) * segment_ns(segment, rate) +
                      segment_ns(bytes % segment, rate));
}

}  // namespace

LinkSpec LinkSpec::parse(const std::string& text, const std::string& where) {
  std::vector<std::string> parts{""};
  for (char c : text)
    if (c == ',')
      parts.emplace_back();
    else
      parts.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (parts.size() < 2 || parts.size() > 3) refuse(concat("'", text, "' is not a link"), where);
  const auto rate = with_unit(parts[0], {{"bit", 1}, {"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"", 1}});
  if (!rate) refuse(concat("'", parts[0], "' is not a rate"), where);
  if (*rate < 1000 || *rate > 1e13)
    refuse(concat("a rate of ", parts[0], " is not between 1kbit and 10000gbit"), where);
  LinkSpec spec{.bits_per_second = std::llround(*rate), .latency = time_from(parts[1], "latency", where)};
  if (parts.size() == 3) spec.jitter = time_from(parts[2], "jitter", where);
  return spec;
}

std::string LinkSpec::to_string() const {
  const auto scaled = [](double value, UnitNames units) {
    for (const UnitName& u : units)
      if (value >= u.factor) return fmt::format("{:.4g} {}", value / u.factor, u.name);
    return fmt::format("{:.4g} {}", value, std::data(units)[units.size() - 1].name);
  };
  const UnitNames times{{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
  std::string text =
      scaled(static_cast<double>(bits_per_second), {{"Gbit/s", 1e9}, {"Mbit/s", 1e6}, {"kbit/s", 1e3}, {"bit/s", 1}}) +
      ", " + scaled(static_cast<double>(latency.count()), times);
  if (jitter.count() > 0) text += " + 0 to " + scaled(static_cast<double>(jitter.count()), times);
  return text;
}

std::string LinkOptions::to_string() const {
  std::string text = all.to_string();
  for (const auto& [rank, link] : of) text += fmt::format(", {}: {}", rank, link.to_string());
  if (per_host > 0) text += fmt::format(" in hosts of {}, {} between them", per_host, between.to_string());
  return text;
}

SwitchModel LinkOptions::model(int ranks) const {
  std::vector<LinkSpec> ports(static_cast<std::size_t>(ranks), all), hosts;
  for (const auto& [rank, spec] : of) {
    require<UsageError>(rank >= 0 && rank < ranks, "there is no worker ", rank, " (`link-of`): ranks are 0 to ",
                        ranks - 1);
    ports[static_cast<std::size_t>(rank)] = spec;
  }
  if (per_host > 0) hosts.assign(static_cast<std::size_t>((ranks - 1) / per_host + 1), between);
  return SwitchModel(ports, hosts, per_host);
}

SwitchModel::SwitchModel(const std::vector<LinkSpec>& ports, const std::vector<LinkSpec>& hosts, int per_host)
    : ranks_(static_cast<int>(ports.size())), per_host_(per_host) {
  for (const auto* specs : {&ports, &hosts})
    for (const LinkSpec& spec : *specs) {
      const std::int64_t segment = std::clamp<std::int64_t>(spec.bits_per_second / 8 / 4000, 1500, 64 << 10);
      ports_.push_back({.spec = spec,
                        .segment = static_cast<std::size_t>(segment),
                        .send_free = {},
                        .receive_free = {},
                        .turns = {}});
    }
}

/// Where a rank's messages to and from that peer pass.
std::size_t SwitchModel::port_of(int rank, int peer) const {
  const bool outside = per_host_ > 0 && rank / per_host_ != peer / per_host_;
  return static_cast<std::size_t>(outside ? ranks_ + rank / per_host_ : rank);
}

LinkDuration SwitchModel::delay(int from, int to) {
  const LinkSpec &a = ports_[port_of(from, to)].spec, &b = ports_[port_of(to, from)].spec;
  const LinkDuration latency = std::max(a.latency, b.latency), jitter = std::max(a.jitter, b.jitter);
  if (jitter.count() == 0) return latency;
  const std::uint64_t number = count_[{from, to}]++;  // the draw depends on nothing else
  const auto random = philox({static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32),
                              static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)},
                             {0x6c696e6b, 0});
  return latency + LinkDuration(std::llround(static_cast<double>(jitter.count()) * to_unit_float(random[0])));
}

SwitchModel::Id SwitchModel::send(int from, int to, std::size_t bytes, LinkTime stamp) {
  const Id id = next_id_++;
  if (from == to) {
    at_once_.push_back({id, Event::Kind::sent, stamp});
    at_once_.push_back({id, Event::Kind::due, stamp});
    return id;
  }
  const Message message{.from = from,
                        .to = to,
                        .out = port_of(from, to),
                        .in = port_of(to, from),
                        .unsent = bytes,
                        .unarrived = bytes,
                        .stamp = stamp,
                        .delay = delay(from, to)};
  messages_.emplace(id, message);
  ports_[message.out].turns.push_back(id);
  return id;
}

void SwitchModel::cancel(Id message) {
  std::erase_if(at_once_, [&](const Event& e) { return e.message == message; });
  const auto found = messages_.find(message);
  if (found == messages_.end()) return;
  std::erase(ports_[found->second.out].turns, message);
  messages_.erase(found);
}

std::optional<LinkTime> SwitchModel::next_start(const Port& port) const {
  if (port.turns.empty()) return std::nullopt;
  LinkTime first = LinkTime::max();
  for (Id id : port.turns) first = std::min(first, messages_.at(id).stamp);
  return std::max(first, port.send_free);
}

void SwitchModel::start_segment(Port& port, LinkTime at, std::vector<Event>& events) {
  const auto turn =
      std::find_if(port.turns.begin(), port.turns.end(), [&](Id id) { return messages_.at(id).stamp <= at; });
  const Id id = *turn;
  port.turns.erase(turn);
  Message& m = messages_.at(id);
  const std::size_t bytes = std::min(m.unsent, port.segment);
  m.unsent -= bytes;
  m.left = m.unsent == 0;
  port.send_free = at + LinkDuration(segment_ns(bytes, port.spec.bits_per_second));
  arrivals_.push({.head = at + m.delay,
                  .tail = port.send_free + m.delay,
                  .number = next_number_++,
                  .message = id,
                  .in = m.in,
                  .bytes = bytes,
                  .last = m.left});
  if (!m.started) m.first_head = at + m.delay;
  m.started = true;
  m.last_head = at + m.delay;
  m.last_tail = port.send_free + m.delay;
  m.last_bytes = bytes;
  if (m.left)
    events.push_back({id, Event::Kind::sent, port.send_free});
  else
    port.turns.push_back(id);
}

void SwitchModel::arrive(const Arrival& segment, std::vector<Event>& events) {
  Port& port = ports_[segment.in];
  port.receive_free =
      std::max(port.receive_free, segment.head) + LinkDuration(segment_ns(segment.bytes, port.spec.bits_per_second));
  const auto found = messages_.find(segment.message);
  if (found == messages_.end()) return;  // cancelled
  found->second.unarrived -= segment.bytes;
  if (!segment.last) return;
  events.push_back({segment.message, Event::Kind::due, std::max(port.receive_free, segment.tail)});
  messages_.erase(found);
}

std::optional<LinkTime> SwitchModel::next_decision() const {
  std::optional<LinkTime> first;
  const auto consider = [&](std::optional<LinkTime> t) {
    if (t && (!first || *t < *first)) first = t;
  };
  for (const Event& e : at_once_) consider(e.at);
  if (!arrivals_.empty()) consider(arrivals_.top().head);
  for (const Port& port : ports_) consider(next_start(port));
  return first;
}

void SwitchModel::advance(LinkTime now, std::vector<Event>& events) {
  events.insert(events.end(), at_once_.begin(), at_once_.end());
  at_once_.clear();
  while (true) {
    LinkTime first = LinkTime::max();
    Port* starts = nullptr;
    for (Port& port : ports_)
      if (const auto at = next_start(port); at && *at < first) first = *at, starts = &port;
    if (!arrivals_.empty() && arrivals_.top().head <= first) {
      const Arrival segment = arrivals_.top();
      if (segment.head > now) return;
      arrivals_.pop();
      arrive(segment, events);
    } else if (starts != nullptr && first <= now) {
      start_segment(*starts, first, events);
    } else {
      return;
    }
  }
}

LinkTime SwitchModel::earliest_sent(const Message& m) const {
  const Port& port = ports_[m.out];
  return std::max(port.send_free, m.stamp) + wire_time(m.unsent, port.segment, port.spec.bits_per_second);
}

LinkTime SwitchModel::earliest_due(const Message& m) const {
  const Port &from = ports_[m.out], &to = ports_[m.in];
  const auto service = [&](std::size_t bytes) { return wire_time(bytes, from.segment, to.spec.bits_per_second); };
  const LinkTime head = m.started ? m.first_head : std::max(from.send_free, m.stamp) + m.delay;
  const LinkTime served = std::max(to.receive_free, head) + service(m.unarrived);
  if (!m.left) return std::max(served, earliest_sent(m) + m.delay);
  return std::max({served, m.last_head + service(m.last_bytes), m.last_tail});
}

LinkTime SwitchModel::earliest_due(Id message) const {
  const auto found = messages_.find(message);
  return found == messages_.end() ? LinkTime::min() : earliest_due(found->second);
}

std::optional<LinkTime> SwitchModel::next_event(int rank) const {
  std::optional<LinkTime> first;
  const auto consider = [&](LinkTime t) {
    if (!first || t < *first) first = t;
  };
  for (const Event& e : at_once_) consider(e.at);
  for (const auto& [id, m] : messages_) {
    if (m.from == rank && !m.left) consider(earliest_sent(m));
    if (m.to == rank) consider(earliest_due(m));
  }
  return first;
}

}  // namespace laconic::dist
