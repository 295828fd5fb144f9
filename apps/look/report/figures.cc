#include "apps/look/report/figures.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "core/base/error.h"

namespace laconic {

using Json = nlohmann::ordered_json;

Json number_or_null(const nlohmann::json& object, const char* field) {
  const auto number = number_field(object, field);
  return number ? Json(*number) : Json();
}

Judged quality_of(const nlohmann::json& eval) {
  if (eval.contains("perplexity")) return {"perplexity", "", number_or_null(eval, "perplexity")};
  if (const auto metrics = eval.find("metrics"); metrics != eval.end() && metrics->is_object() && !metrics->empty())
    return {metrics->begin().key(), "", metrics->begin()->is_number() ? Json(metrics->begin()->get<double>()) : Json()};
  if (const Json error = number_or_null(eval, "top1_error"); error.is_number())
    return {"accuracy", " %", 100 - error.get<double>()};
  return {"loss", "", number_or_null(eval, "loss")};
}

namespace {

constexpr std::size_t kMostPoints = 600;

/// Where a run is after each of its steps.
struct Positions {
  std::vector<double> seconds, bytes;  ///< since the first one; sent by all workers, NaN: not counted
};

Positions positions_of(const std::vector<LoggedStep>& steps) {
  Positions p;
  double seconds = 0, bytes = 0;
  for (const LoggedStep& s : steps) {
    seconds += std::isfinite(s.step_ms) ? 1e-3 * s.step_ms : 0;
    bytes += s.bytes_sent_sum;
    p.seconds.push_back(seconds), p.bytes.push_back(bytes);
  }
  return p;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// Lists, empty at first, by these names.
Json empty_lists(std::initializer_list<const char*> names) {
  Json all;
  for (const char* name : names) all[name] = Json::array();
  return all;
}

/// Neighbouring steps as one point, at the last of them.
Json curves(const std::vector<LoggedStep>& steps, const Positions& at) {
  Json c = empty_lists({"step", "seconds", "bytes", "loss", "lr", "ms"});
  const std::size_t width = (steps.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t begin = 0; begin < steps.size(); begin += width) {
    const std::size_t end = std::min(begin + width, steps.size());
    const std::span<const LoggedStep> group(&steps[begin], end - begin);
    double sum = 0;
    int count = 0;
    for (const LoggedStep& s : group)
      if (std::isfinite(s.loss)) sum += s.loss, ++count;
    c["step"].push_back(steps[end - 1].step), c["seconds"].push_back(at.seconds[end - 1]);
    c["bytes"].push_back(finite(at.bytes[end - 1]));
    c["loss"].push_back(count > 0 ? Json(sum / count) : Json());
    c["lr"].push_back(finite(group.back().lr));
    const Median ms = median_over(group, ms_of);
    c["ms"].push_back(ms.value > 0 ? Json(ms.value) : Json());
  }
  return c;
}

Json evaluations(const LogFile& log, const Positions& at, Judged& judged) {
  Json all = empty_lists({"step", "seconds", "bytes", "value", "loss"});
  for (const auto& [after, eval] : log.evals) {
    judged = quality_of(eval);
    const std::size_t i = std::min(after, log.steps.size());
    all["step"].push_back(i == 0 ? 0 : log.steps[i - 1].step), all["seconds"].push_back(i == 0 ? 0 : at.seconds[i - 1]);
    all["bytes"].push_back(i == 0 ? Json(0) : finite(at.bytes[i - 1]));
    all["value"].push_back(judged.value), all["loss"].push_back(number_or_null(eval, "loss"));
  }
  return all;
}

template <class Figure>
double sum_over(std::span<const LoggedStep> steps, Figure figure) {
  double sum = 0;
  for (const LoggedStep& s : steps)
    if (const double value = figure(s); std::isfinite(value)) sum += value;
  return sum;
}

/// Returns the share, 0 … 1, that part `i` has of the time of all these steps together.
double share_of(std::span<const LoggedStep> steps, std::size_t i) {
  const double all = sum_over(steps, ms_of);
  return all > 0 ? sum_over(steps, [i](const LoggedStep& s) { return s.parts[i]; }) / all : 0;
}

/// Splits a step of `step_ms` into parts by their shares. With "all else" they add up to it.
Json parts_of(std::span<const LoggedStep> counted, double step_ms) {
  Json parts = Json::array();
  double rest = 1;
  const auto add = [&](const char* what, const char* kind, double share) {
    if (share > 0) parts.push_back({{"what", what}, {"kind", kind}, {"ms", share * step_ms}});
  };
  for (std::size_t i = 0; i < std::size(kStepParts); ++i) {
    const double share = share_of(counted, i);
    add(kStepParts[i].what, kStepParts[i].kind, share), rest -= share;
  }
  if (!parts.empty() && rest > 1e-6) add("all else", "other", rest);
  return parts;
}

Json buckets_of(const nlohmann::json& plan) {
  Json all = Json::array();
  if (!plan.is_object() || !plan.contains("buckets") || !plan["buckets"].is_array()) return all;
  for (const nlohmann::json& b : plan["buckets"]) {
    if (!b.is_object()) continue;
    Json line = {
        {"bucket", text_field(b, "bucket")}, {"choice", text_field(b, "choice")},
        {"runner_up", text_field(b, "runner_up")}};
    for (const char* figure : {"bytes", "ready_ms", "needed_ms", "waits_ms", "behind_ms"})
      line[figure] = number_or_null(b, figure);
    all.push_back(std::move(line));
  }
  return all;
}

/// The columns are those of the first row; a cell is a number, a text or null.
Json ledger_of(const nlohmann::json& ledger) {
  Json all = {{"columns", Json::array()}, {"rows", Json::array()}};
  if (!ledger.is_object() || !ledger.contains("parameters") || !ledger["parameters"].is_array()) return all;
  std::vector<std::string> columns{"parameter", "choice", "elements"};
  for (const nlohmann::json& row : ledger["parameters"])
    if (row.is_object())
      for (const auto& [name, value] : row.items())
        if (std::ranges::find(columns, name) == columns.end()) columns.push_back(name);
  for (const std::string& name : columns) {
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    all["columns"].push_back(words);
  }
  for (const nlohmann::json& row : ledger["parameters"]) {
    if (!row.is_object()) continue;
    Json cells = Json::array();
    for (const std::string& name : columns) {
      const auto found = row.find(name);
      cells.push_back(found == row.end()   ? Json()
                      : found->is_number() ? Json(found->get<double>())
                      : found->is_string() ? Json(found->get<std::string>())
                                           : Json());
    }
    all["rows"].push_back(std::move(cells));
  }
  return all;
}

/// The steps that have counts of gradients. A parameter is its name, its zeros, the exponent of its first count, and
/// the counts.
Json gradients_of(const LogFile& log) {
  Json all = Json::array();
  for (const auto& [step, gradients] : log.gradients) {
    Json parameters = Json::array();
    if (!gradients.is_array()) continue;
    for (const nlohmann::json& g : gradients) {
      if (!g.is_object() || !g.contains("counts") || !g["counts"].is_array()) continue;
      Json counts = Json::array();
      for (const nlohmann::json& count : g["counts"]) counts.push_back(count.is_number() ? count.get<double>() : 0);
      parameters.push_back(
          {text_field(g, "parameter"), number_field(g, "zeros").value_or(0), number_field(g, "lowest").value_or(0),
           std::move(counts)});
    }
    if (!parameters.empty()) all.push_back({{"step", step}, {"parameters", std::move(parameters)}});
  }
  return all;
}

}  // namespace

Json drawn(const RunFigures& run) {
  const nlohmann::json &about = run.log.run, &plan = run.log.plan;
  const std::vector<LoggedStep>&all = run.log.steps, &timed = run.timed.empty() ? all : run.timed;
  const std::vector<LoggedStep> counted = rounds_of(without_warm_up(timed), exchange_every(about));
  const Positions at = positions_of(all);
  const Median ms = median_over(counted, ms_of);
  const double exposed = share_of(counted, std::size(kStepParts) - 1);
  Judged judged;
  Json evaluated = evaluations(run.log, at, judged);
  const Json steps = curves(all, at);
  const double sent = mean_over(all, [](const LoggedStep& s) { return s.bytes_sent; });
  const bool planned = plan.is_object();
  return {{"title", run.title},
          {"model", text_field(about, "model")},
          {"machine", text_field(about, "machine")},
          {"version", text_field(about, "version")},
          {"commit", text_field(about, "commit")},
          {"command", text_field(about, "command")},
          {"last_step", all.back().step},
          {"total_steps", number_or_null(about, "total_steps")},
          {"step_ms", {ms.value, ms.low, ms.high}},
          {"exposed", ms.value > 0 ? Json(exposed) : Json()},
          {"bytes_a_step", finite(sent)},
          {"seconds", at.seconds.back()},
          {"last_loss", steps["loss"].back()},
          {"measure", judged.by},
          {"unit", judged.unit},
          {"steps", steps},
          {"evals", std::move(evaluated)},
          {"parts", parts_of(counted, ms.value)},
          {"straggler", straggler_in(run.log.ranks)},
          {"buckets", buckets_of(plan)},
          {"group", planned ? text_field(plan, "group") : ""},
          {"predicted_ms", planned ? number_or_null(plan, "step_ms") : Json()},
          {"ledger", ledger_of(run.log.ledger)},
          {"gradients", gradients_of(run.log)},
          {"timeline", Json()}};
}

}  // namespace laconic
