#include "apps/compare/bound.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "compress/codecs.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace laconic {

Exchange exchange_of(const nlohmann::json& described, const std::optional<dist::LinkSpec>& rate) {
  Exchange e{described.value("workers", 1), rate, dist::overlap_named(described.value("overlap", "forward")),
             described.value("accumulate", 1)};
  if (const auto link = described.find("link"); link != described.end()) {
    e.link.emplace();
    e.link->bits_per_second = link->at("bits_per_second").get<std::int64_t>();
    e.link->latency = dist::LinkDuration(link->at("latency_ns").get<std::int64_t>());
  }
  return e;
}

std::optional<dist::Replay> bound_of(const dist::LayerTimes& times, const std::string& plan, const Exchange& e,
                                     double compute_seconds) {
  if (!e.link) return std::nullopt;
  const double bytes_per_second = static_cast<double>(e.link->bits_per_second) / 8;
  const double latency = std::chrono::duration<double>(e.link->latency).count();

  double once_ms = 0, update_ms = 0;  // of a micro-batch, of a step
  for (const auto& l : times.layers) {
    once_ms += l.forward_ms + l.backward_ms;
    for (const auto& p : l.parameters) update_ms += p.update_ms;
  }
  const double measured_ms = e.accumulate * once_ms + update_ms;
  const double scale = measured_ms > 0 ? compute_seconds / measured_ms : 0;  // ms to s, and to all workers at work
  std::vector<dist::ReplayLayer> layers;
  struct Place {
    int layer = 0;
    const dist::LayerTimes::Parameter* parameter = nullptr;
  };
  std::map<std::string, Place> places;
  for (const auto& l : times.layers) {
    for (const auto& p : l.parameters) places[p.name] = {static_cast<int>(layers.size()), &p};
    layers.push_back({l.name, scale * l.forward_ms, scale * l.backward_ms});
  }
  // Gradients of micro-batches before the last one stay at home, and hide no message.
  if (e.accumulate > 1) layers.push_back({"earlier micro-batches", scale * (e.accumulate - 1) * once_ms, 0});

  std::vector<dist::ReplayMessage> messages;
  try {
    auto json = json_from(plan, "a plan");
    const std::string what = json.value("travels", "plan");
    if (what != "plan" && what != "nothing") return std::nullopt;
    const bool travels = what == "plan" && e.workers > 1;
    if (json.contains("plan")) json = nlohmann::json(json["plan"]);
    const auto codec = compress::make_codec(json.value("codec", "none"));
    for (const auto& bucket : json.at("buckets")) {
      const auto names = bucket.at("parameters").get<std::vector<std::string>>();
      const bool chunk = bucket.contains("rows");
      // Chunks of one weight stand one after another: they are one message of the replay.
      if (!chunk || messages.empty() || messages.back().name != names.at(0)) {
        dist::ReplayMessage m;
        m.name = names.size() > 1 ? names.front() + ".." + names.back() : names.at(0);
        m.layer = static_cast<int>(layers.size());
        double bytes = 0;
        for (const auto& name : names) {
          const auto found = places.find(name);
          require<DataError>(found != places.end(), "bound: the plan has a parameter ", name, " that no layer has");
          const auto& [layer, p] = found->second;
          if (layer < m.layer) m.layer = layer, m.ready_seconds = 0;
          if (layer == m.layer) m.ready_seconds = std::max(m.ready_seconds, scale * p->ready_ms);
          m.update_seconds += scale * p->update_ms;
          bytes += 4.0 * static_cast<double>(p->elements);
        }
        if (travels) {
          const auto allreduce = bucket.at("algorithm").get<std::string>();
          if (!dist::find_allreduce(allreduce)) return std::nullopt;
          // As one piece: all of a ring's pieces wait for the same latency together.
          const auto cost = dist::allreduce_cost(allreduce, e.workers, bytes, 1, codec.get());
          if (!cost) return std::nullopt;
          m.link_seconds = cost->bytes / bytes_per_second;
          // A message waits for the whole one before it. Pieces fly together: behind the last byte comes one latency,
          // and no byte is faster than all hops.
          const double hops = dist::allreduce_cost(allreduce, e.workers, sizeof(float), 1)->messages;
          const bool in_pieces = cost->messages > hops || bucket.value("pieces", 1) > 1;
          m.delay_seconds = in_pieces ? std::max(latency, hops * latency - m.link_seconds) : hops * latency;
        }
        m.chunks = 0;
        m.pieces = bucket.value("pieces", 1);
        messages.push_back(m);
      }
      ++messages.back().chunks;
    }
  } catch (const nlohmann::json::exception& wrong) {
    throw DataError(concat("bound: the plan cannot be read (", wrong.what(), ")"));
  }
  return dist::replay(layers, messages, e.overlap);
}

}  // namespace laconic
