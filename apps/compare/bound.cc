#include "apps/compare/bound.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "apps/compare/options.h"
#include "core/error.h"
#include "dist/collective/butterfly_allreduce.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic {
namespace {

constexpr double kPieceBytes = 1 << 20;  // in which the engine lets large messages be overtaken

/// The number at the start of text and what follows it in small letters; nothing if there is no number.
std::optional<std::pair<double, std::string>> quantity(const std::string& text) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || !std::isfinite(value) || value < 0) return std::nullopt;
  return std::pair{value, std::string(result.ptr, text.data() + text.size())};
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::optional<double> bytes_per_second(const std::string& text) {
  const auto q = quantity(text);
  if (!q) return std::nullopt;
  std::string unit = q->second;
  if (unit.size() > 2 && lower(unit.substr(unit.size() - 2)) == "/s") unit.resize(unit.size() - 2);
  const bool bytes = !unit.empty() && unit.back() == 'B';
  unit = lower(unit);
  for (const auto& [prefix, factor] :
       {std::pair{"k", 1e3}, std::pair{"m", 1e6}, std::pair{"g", 1e9}, std::pair{"", 1.0}}) {
    if (!bytes && (unit == std::string(prefix) + "bit" || unit == std::string(prefix) + "b"))
      return q->first * factor / 8;
    if (bytes && unit == std::string(prefix) + "b") return q->first * factor;
  }
  return std::nullopt;
}

std::optional<double> seconds(const std::string& text) {
  const auto q = quantity(text);
  if (!q) return std::nullopt;
  for (const auto& [unit, factor] : {std::pair{"us", 1e-6}, std::pair{"ms", 1e-3}, std::pair{"s", 1.0}})
    if (q->second == unit) return q->first * factor;
  if (q->first == 0 && q->second.empty()) return 0;
  return std::nullopt;
}

/// "1MiB", "64KiB", "4MB", "500"; nothing if it is none of these.
std::optional<double> size_bytes(const std::string& text) {
  const auto q = quantity(text);
  if (!q) return std::nullopt;
  for (const auto& [unit, factor] : {std::pair{"", 1.0}, std::pair{"kib", 1024.0}, std::pair{"mib", 1048576.0},
                                     std::pair{"kb", 1e3}, std::pair{"mb", 1e6}})
    if (lower(q->second) == unit) return q->first * factor;
  return std::nullopt;
}

/// What one message of so many bytes takes; nothing for an algorithm that has no formula here.
std::optional<dist::Cost> cost_of(const std::string& algorithm, int workers, double bytes) {
  if (algorithm == "ring") return dist::ring_allreduce_cost(workers, bytes);
  if (algorithm == "butterfly") return dist::butterfly_allreduce_cost(workers, bytes);
  return std::nullopt;
}

}  // namespace

LinkSpeed link_speed(const std::string& text, const std::string& option) {
  const auto comma = text.find(',');
  const auto rate = bytes_per_second(text.substr(0, comma));
  const std::string rest = comma == std::string::npos ? "0" : text.substr(comma + 1);
  const auto latency = seconds(rest.substr(0, rest.find(',')));
  require<UsageError>(rate && *rate > 0 && latency, "'", text, "' is not a link (", option, "): give RATE,LATENCY, as ",
                      option, " 100mbit,1ms");
  return {*rate, *latency};
}

Exchange exchange_of(const std::vector<std::string>& words, int workers, const std::optional<LinkSpeed>& rate) {
  Exchange e;
  e.workers = workers;
  e.link = rate;
  if (const auto link = value_of(words, "--link")) e.link = link_speed(*link, "--link");
  if (const auto one = value_of(words, "--link-of"); one && e.link && one->find('=') != std::string::npos) {
    const LinkSpeed slow = link_speed(one->substr(one->find('=') + 1), "--link-of");
    e.link->bytes_per_second = std::min(e.link->bytes_per_second, slow.bytes_per_second);
    e.link->latency_seconds = std::max(e.link->latency_seconds, slow.latency_seconds);
  }
  e.sync = value_of(words, "--sync").value_or(e.sync);
  e.allreduce = value_of(words, "--allreduce").value_or(e.allreduce);
  const std::string overlap = value_of(words, "--overlap").value_or("forward");
  using Overlap = dist::ReplayOptions::Overlap;
  e.overlap = overlap == "none" ? Overlap::none : overlap == "backward" ? Overlap::backward : Overlap::forward;
  if (const auto fusion = value_of(words, "--fusion")) {
    const auto colon = fusion->find(':');
    e.bucket_bytes = colon == std::string::npos ? 0 : size_bytes(fusion->substr(colon + 1)).value_or(e.bucket_bytes);
  }
  return e;
}

std::optional<dist::Replay> bound_of(const LayerTimes& times, const Exchange& e, double compute_seconds) {
  const bool exchanges = e.sync != "none" && e.workers > 1;
  if (e.sync != "none" && (e.sync != "allreduce" || !e.link || !cost_of(e.allreduce, e.workers, 1)))
    return std::nullopt;

  double measured_ms = 0;
  for (const auto& l : times.layers) {
    measured_ms += l.forward_ms + l.backward_ms;
    for (const auto& p : l.parameters) measured_ms += p.update_ms;
  }
  const double scale = measured_ms > 0 ? compute_seconds / measured_ms : 0;  // ms to s, and to all workers at work

  std::vector<dist::ReplayLayer> layers;
  std::vector<dist::ReplayMessage> messages;
  // Neighbours join, last layer first, while their bucket is not too large: the plan's rule.
  double bucket_bytes = 0;
  const auto bytes_of = [](const LayerTimes::Parameter& p) { return 4.0 * static_cast<double>(p.elements); };
  for (const auto& l : times.layers) layers.push_back({l.name, scale * l.forward_ms, scale * l.backward_ms});
  std::vector<double> bytes;
  for (std::size_t i = times.layers.size(); i-- > 0;)
    for (auto p = times.layers[i].parameters.rbegin(); p != times.layers[i].parameters.rend(); ++p) {
      const bool joins = !messages.empty() && bucket_bytes + bytes_of(*p) <= e.bucket_bytes;
      if (!joins) messages.push_back({p->name, 0, 0, 0, 0, 0, p->chunks, 1}), bytes.push_back(0), bucket_bytes = 0;
      dist::ReplayMessage& m = messages.back();
      if (joins) m.name += ".." + p->name, m.chunks = 1;
      // The bucket is ready with the last of its first layer's gradients.
      m.ready_seconds = m.layer == static_cast<int>(i) && joins ? std::max(m.ready_seconds, scale * p->ready_ms)
                                                                : scale * p->ready_ms;
      m.layer = static_cast<int>(i);
      m.update_seconds += scale * p->update_ms;
      bytes.back() += bytes_of(*p);
      bucket_bytes += bytes_of(*p);
    }
  for (std::size_t m = 0; exchanges && m < messages.size(); ++m) {
    const dist::Cost cost = *cost_of(e.allreduce, e.workers, bytes[m]);
    messages[m].link_seconds = cost.bytes / e.link->bytes_per_second;
    messages[m].delay_seconds = cost.messages * e.link->latency_seconds;
    messages[m].pieces = std::max(1, static_cast<int>(std::ceil(bytes[m] / messages[m].chunks / kPieceBytes)));
  }
  return dist::replay(layers, messages, {e.overlap, true});
}

}  // namespace laconic
