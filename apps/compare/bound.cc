#include "apps/compare/bound.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "dist/predict/predictor.h"

namespace laconic {
namespace {

/// The times of layers as all workers at work have them, in which a step without exchange takes `compute_seconds`.
dist::LayerTimes scaled(dist::LayerTimes times, int micro_batches, double compute_seconds) {
  double once_ms = 0, update_ms = 0;  // of a micro-batch, of a step
  for (const auto& l : times.layers) {
    once_ms += l.forward_ms + l.backward_ms;
    for (const auto& p : l.parameters) update_ms += p.update_ms;
  }
  const double measured_ms = micro_batches * once_ms + update_ms;
  const double factor = measured_ms > 0 ? 1e3 * compute_seconds / measured_ms : 0;
  for (auto& l : times.layers) {
    l.forward_ms *= factor, l.backward_ms *= factor;
    for (auto& p : l.parameters) p.ready_ms *= factor, p.update_ms *= factor;
  }
  // Gradients of micro-batches before the last one stay at home, and hide no message.
  if (micro_batches > 1)
    times.layers.push_back({"earlier micro-batches", factor * (micro_batches - 1) * once_ms, 0, {}});
  return times;
}

/// The parameters that a plan, as --dry-run --json prints it, names, one behind the other. None has memory.
std::vector<std::shared_ptr<Parameter>> parameters_of(const nlohmann::json& plan, const dist::LayerTimes& times) {
  std::map<std::string, std::int64_t> elements, rows;
  for (const auto& l : times.layers)
    for (const auto& p : l.parameters) elements[p.name] = p.elements;
  std::vector<std::string> names;
  for (const auto& bucket : plan.at("buckets"))
    for (const auto& name : bucket.at("parameters").get<std::vector<std::string>>()) {
      require<DataError>(elements.contains(name), "bound: the plan has a parameter ", name, " that no layer has");
      if (names.empty() || names.back() != name) names.push_back(name);
      if (bucket.contains("rows")) rows[name] += bucket["rows"].at(1).get<std::int64_t>();
    }
  std::vector<std::shared_ptr<Parameter>> all;
  std::int64_t offset = 0;
  for (const std::string& name : names) {
    const std::int64_t n = elements[name], r = std::max<std::int64_t>(1, rows.contains(name) ? rows[name] : n);
    ParameterInfo& info = all.emplace_back(std::make_shared<Parameter>(Shape{r, n / r}, Role::linear, kGhost))->info;
    info.name = name, info.offset = offset;
    offset += n;
  }
  return all;
}

}  // namespace

ExchangeFacts exchange_of(const nlohmann::json& described, const std::optional<dist::LinkSpec>& rate) {
  ExchangeFacts e{described.value("workers", 1), rate, dist::overlap_named(described.value("overlap", "forward")),
             described.value("accumulate", 1)};
  if (const auto link = described.find("link"); link != described.end()) {
    e.link.emplace();
    e.link->bits_per_second = link->at("bits_per_second").get<std::int64_t>();
    e.link->latency = dist::LinkDuration(link->at("latency_ns").get<std::int64_t>());
  }
  return e;
}

std::optional<dist::Replay> bound_of(const dist::LayerTimes& times, const std::string& plan, const ExchangeFacts& e,
                                     double compute_seconds) try {
  if (!e.link) return std::nullopt;
  const nlohmann::json json = json_from(plan, "a plan");
  const std::string what = json.value("travels", "plan");
  if (what != "plan" && what != "nothing") return std::nullopt;
  const nlohmann::json& described = json.contains("plan") ? json["plan"] : json;
  const int workers = what == "plan" ? e.workers : 1;
  for (const auto& bucket : described.at("buckets"))
    if (const auto by = bucket.at("algorithm").get<std::string>();
        !dist::find_allreduce(by) || (workers > 1 && !dist::allreduce_cost(by, workers, 4)))
      return std::nullopt;
  const auto parameters = parameters_of(described, times);
  dist::Plan way = dist::Plan::from_json(plan, parameters, "bound");
  way.sync.clear();
  for (dist::Bucket& bucket : way.buckets) bucket.choice = {};  // all of each gradient travels
  const dist::PredictionFacts facts{
      .parameters = parameters,
      .times = scaled(times, e.accumulate, compute_seconds),
      .group = {.workers = workers,
                .bytes_per_second = static_cast<double>(e.link->bits_per_second) / 8,
                .latency_seconds = std::chrono::duration<double>(e.link->latency).count()},
      .overlap = e.overlap,
      .bound = true};
  return dist::Predictor(facts).schedule(way).replay;
} catch (const nlohmann::json::exception& wrong) {
  throw DataError(concat("bound: the plan cannot be read (", wrong.what(), ")"));
}

}  // namespace laconic
