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

/// The part of a plan that a schedule needs, read from what --dry-run --json prints, and the parameters that it names.
struct DescribedPlan {
  DescribedPlan(const nlohmann::json& json, const dist::LayerTimes& times) {
    std::map<std::string, std::int64_t> elements;
    for (const auto& l : times.layers)
      for (const auto& p : l.parameters) elements[p.name] = p.elements;
    plan.codec = json.value("codec", "none");
    for (const auto& described : json.at("buckets")) {
      const auto names = described.at("parameters").get<std::vector<std::string>>();
      dist::Bucket b{.first = static_cast<int>(parameters.size()), .count = static_cast<int>(names.size())};
      b.allreduce = described.at("algorithm").get<std::string>(), b.pieces = described.value("pieces", 1);
      b.name = names.size() > 1 ? names.front() + ".." + names.back() : names.at(0);
      if (described.contains("rows")) b.rows = {0, 1};
      dist::Bucket* const before = plan.buckets.empty() ? nullptr : &plan.buckets.back();
      if (b.chunk() && before != nullptr && before->chunk() && before->name == b.name) {
        b.first = before->first, b.rows.first = before->rows.first + 1;  // it is another chunk of this weight
      } else {
        for (const std::string& name : names) {
          require<DataError>(elements.contains(name), "bound: the plan has a parameter ", name, " that no layer has");
          b.elements += elements[name];
          parameters.push_back(std::make_shared<Parameter>(Shape{elements[name]}, Role::linear, kGhost));
          parameters.back()->info.name = name;
        }
      }
      plan.buckets.push_back(std::move(b));
    }
    // A weight's chunks share its elements.
    for (std::size_t i = plan.buckets.size(), chunks = 0; i-- > 0;) {
      dist::Bucket& b = plan.buckets[i];
      chunks = std::max(chunks, static_cast<std::size_t>(b.rows.first + b.rows.count));
      if (!b.chunk()) continue;
      const std::int64_t all = elements[b.name], n = static_cast<std::int64_t>(chunks);
      b.elements = all * (b.rows.first + 1) / n - all * b.rows.first / n;
      if (b.rows.first == 0) chunks = 0;
    }
  }

  dist::Plan plan;
  std::vector<std::shared_ptr<Parameter>> parameters;
};

}  // namespace

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
                                     double compute_seconds) try {
  if (!e.link) return std::nullopt;
  const nlohmann::json json = json_from(plan, "a plan");
  const std::string what = json.value("travels", "plan");
  if (what != "plan" && what != "nothing") return std::nullopt;
  const DescribedPlan described(json.contains("plan") ? json["plan"] : json, times);
  const int workers = what == "plan" ? e.workers : 1;
  for (const dist::Bucket& b : described.plan.buckets)
    if (workers > 1 && (!dist::find_allreduce(b.allreduce) || !dist::allreduce_cost(b.allreduce, workers, 4)))
      return std::nullopt;
  const dist::PredictionFacts facts{
      .parameters = described.parameters,
      .times = scaled(times, e.accumulate, compute_seconds),
      .group = {.workers = workers,
                .bytes_per_second = static_cast<double>(e.link->bits_per_second) / 8,
                .latency_seconds = std::chrono::duration<double>(e.link->latency).count()},
      .overlap = e.overlap,
      .bound = true};
  return dist::Predictor(facts).schedule(described.plan).replay;
} catch (const nlohmann::json::exception& wrong) {
  throw DataError(concat("bound: the plan cannot be read (", wrong.what(), ")"));
}

}  // namespace laconic
