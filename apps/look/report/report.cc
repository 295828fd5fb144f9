#include "apps/look/report/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>

#include "apps/look/log_file.h"
#include "apps/look/trace_file.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "report_page_source.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostPoints = 600, kMostSpans = 40'000;

/// null where the field is missing or no number.
Json number_or_null(const nlohmann::json& object, const char* field) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number() ? Json(found->get<double>()) : Json();
}

double number_or(const nlohmann::json& object, const char* field, double otherwise) {
  const auto found = object.find(field);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

std::string text_or(const nlohmann::json& object, const char* field, const std::string& otherwise = "") {
  const auto found = object.find(field);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

/// Where a run is after each of its steps.
struct Positions {
  std::vector<double> seconds, bytes;  ///< since the first one; sent by all workers, NaN: not counted
};

Positions positions_of(const std::vector<ReportedStep>& steps) {
  Positions p;
  double seconds = 0, bytes = 0;
  for (const ReportedStep& s : steps) {
    seconds += std::isfinite(s.step_ms) ? 1e-3 * s.step_ms : 0;
    bytes += s.bytes_sent_sum;
    p.seconds.push_back(seconds), p.bytes.push_back(bytes);
  }
  return p;
}

/// The median over the steps that have the figure; 0: none has.
template <class Figure>
Median median_over(std::span<const ReportedStep> steps, Figure figure) {
  std::vector<double> values;
  for (const ReportedStep& s : steps)
    if (const double value = figure(s); std::isfinite(value)) values.push_back(value);
  return values.empty() ? Median{} : median(std::move(values));
}

/// NaN where a step does not have the figure.
template <class Figure>
double mean_over(std::span<const ReportedStep> steps, Figure figure) {
  double sum = 0;
  for (const ReportedStep& s : steps) sum += figure(s);
  return sum / static_cast<double>(steps.size());
}

double ms_of(const ReportedStep& s) { return s.step_ms; }

/// Returns the means over each round (each_round).
std::vector<ReportedStep> rounds_of(std::span<const ReportedStep> steps, std::size_t every) {
  std::vector<ReportedStep> rounds;
  each_round(steps.size(), every, [&](std::size_t begin, std::size_t n) {
    const auto mean = [&](auto figure) { return mean_over(steps.subspan(begin, n), figure); };
    ReportedStep& round = rounds.emplace_back(steps[begin]);
    round.step_ms = mean(ms_of);
    for (std::size_t i = 0; i < round.parts.size(); ++i)
      round.parts[i] = mean([i](const ReportedStep& s) { return s.parts[i]; });
  });
  return rounds;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(); }

/// Neighbouring steps as one point, at the last of them.
Json curves(const std::vector<ReportedStep>& steps, const Positions& at) {
  Json c = {{"step", Json::array()},
            {"seconds", Json::array()},
            {"bytes", Json::array()},
            {"loss", Json::array()},
            {"lr", Json::array()},
            {"ms", Json::array()}};
  const std::size_t width = (steps.size() + kMostPoints - 1) / kMostPoints;
  for (std::size_t begin = 0; begin < steps.size(); begin += width) {
    const std::size_t end = std::min(begin + width, steps.size());
    const std::span<const ReportedStep> group(&steps[begin], end - begin);
    double sum = 0;
    int count = 0;
    for (const ReportedStep& s : group)
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

/// What a run is judged by, in one evaluation.
struct Judged {
  std::string by, unit;
  Json value;
};

Judged quality_of(const nlohmann::json& eval) {
  if (eval.contains("perplexity")) return {"perplexity", "", number_or_null(eval, "perplexity")};
  if (const auto metrics = eval.find("metrics"); metrics != eval.end() && metrics->is_object() && !metrics->empty())
    return {metrics->begin().key(), "", metrics->begin()->is_number() ? Json(metrics->begin()->get<double>()) : Json()};
  if (const Json error = number_or_null(eval, "top1_error"); error.is_number())
    return {"accuracy", " %", 100 - error.get<double>()};
  return {"loss", "", number_or_null(eval, "loss")};
}

Json evaluations(const RunFigures& run, const Positions& at, Judged& judged) {
  Json all = {{"step", Json::array()},
              {"seconds", Json::array()},
              {"bytes", Json::array()},
              {"value", Json::array()},
              {"loss", Json::array()}};
  for (const auto& [after, eval] : run.evals) {
    judged = quality_of(eval);
    const std::size_t i = std::min(after, run.steps.size());
    all["step"].push_back(i == 0 ? 0 : run.steps[i - 1].step), all["seconds"].push_back(i == 0 ? 0 : at.seconds[i - 1]);
    all["bytes"].push_back(i == 0 ? Json(0) : finite(at.bytes[i - 1]));
    all["value"].push_back(judged.value), all["loss"].push_back(number_or_null(eval, "loss"));
  }
  return all;
}

template <class Figure>
double sum_over(std::span<const ReportedStep> steps, Figure figure) {
  double sum = 0;
  for (const ReportedStep& s : steps)
    if (const double value = figure(s); std::isfinite(value)) sum += value;
  return sum;
}

/// Returns the share, 0 … 1, that part `i` has of the time of all these steps together.
double share_of(std::span<const ReportedStep> steps, std::size_t i) {
  const double all = sum_over(steps, ms_of);
  return all > 0 ? sum_over(steps, [i](const ReportedStep& s) { return s.parts[i]; }) / all : 0;
}

/// Splits a step of `step_ms` into parts by their shares. With "all else" they add up to it.
Json parts_of(std::span<const ReportedStep> counted, double step_ms) {
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
        {"bucket", text_or(b, "bucket")}, {"choice", text_or(b, "choice")}, {"runner_up", text_or(b, "runner_up")}};
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

/// Steps 3 and 4, or the last two, of all ranks and threads: the exchange of a step's gradients may begin as late as in
/// the next step's forward. Times are in ms.
Json timeline_of(const TraceFile& trace, const std::string& path) {
  const TraceFile::Line* const computing = trace.computing(0);
  require<DataError>(computing, path, ": rank 0 has not computed in this trace. Name a file that --trace has written.");
  const std::vector<double> starts = step_starts(*computing);
  require<DataError>(starts.size() >= 2, path, ": there is no whole step in this trace. Train some.");
  const std::size_t whole = starts.size() - 1,
                    first = std::min<std::size_t>(3, std::max<std::size_t>(whole, 2) - 1) - 1;
  const double begin = starts[first], end = starts[std::min(first + 2, whole)];
  const auto ms = [&](double time) { return std::round((time - begin) * 10) / 1e4; };
  Json rows = Json::array();
  std::map<std::pair<int, int>, int> row_of;
  std::size_t spans = 0;
  for (const auto& [rank, lines] : trace.ranks)
    for (const auto& [number, line] : lines) {
      Json row = {{"name", concat("rank ", rank, " ", line.name)},
                  {"short", concat(rank, " ", line.name.substr(0, 7))},
                  {"spans", Json::array()}};
      for (const TraceFile::Span& s : line.spans) {
        if (s.end < begin || s.begin > end || spans++ > kMostSpans) continue;
        int depth = 0;
        for (int i = s.around; i >= 0; i = line.spans[static_cast<std::size_t>(i)].around) ++depth;
        row["spans"].push_back(Json::array({ms(s.begin), ms(s.end), s.category, s.name, s.bytes, depth}));
      }
      if (row["spans"].empty()) continue;
      row_of[{rank, number}] = static_cast<int>(rows.size());
      rows.push_back(std::move(row));
    }
  Json arrows = Json::array();
  for (const auto* paths : {&trace.gradients, &trace.messages})
    for (const auto& [id, points] : *paths) {
      Json arrow = Json::array();
      bool inside = false;
      for (const TraceFile::Point& p : points) {
        const auto row = row_of.find({p.rank, p.line});
        if (row == row_of.end()) continue;
        inside |= p.time >= begin && p.time <= end;
        arrow.push_back(Json::array({row->second, ms(p.time)}));
      }
      if (inside && arrow.size() >= 2 && spans++ <= kMostSpans) arrows.push_back(std::move(arrow));
    }
  return {{"begin", 0}, {"end", ms(end)}, {"rows", std::move(rows)}, {"arrows", std::move(arrows)}};
}

/// The steps that have counts of gradients. A parameter is its name, its zeros, the exponent of its first count, and
/// the counts.
Json gradients_of(const RunFigures& run) {
  Json all = Json::array();
  for (const auto& [step, gradients] : run.gradients) {
    Json parameters = Json::array();
    if (!gradients.is_array()) continue;
    for (const nlohmann::json& g : gradients) {
      if (!g.is_object() || !g.contains("counts") || !g["counts"].is_array()) continue;
      Json counts = Json::array();
      for (const nlohmann::json& count : g["counts"]) counts.push_back(count.is_number() ? count.get<double>() : 0);
      parameters.push_back(
          {text_or(g, "parameter"), number_or(g, "zeros", 0), number_or(g, "lowest", 0), std::move(counts)});
    }
    if (!parameters.empty()) all.push_back({{"step", step}, {"parameters", std::move(parameters)}});
  }
  return all;
}

ReportedStep figures_of_step(const nlohmann::json& line) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  ReportedStep s{number_or(line, "step", 0),
                 number_or(line, "loss", unknown),
                 number_or(line, "lr", unknown),
                 number_or(line, "step_ms", unknown),
                 number_or(line, "bytes_sent", unknown),
                 number_or(line, "bytes_sent_sum", unknown),
                 {}};
  for (std::size_t i = 0; i < std::size(kStepParts); ++i) s.parts[i] = number_or(line, kStepParts[i].figure, unknown);
  return s;
}

Json object(const RunFigures& run) {
  const std::vector<ReportedStep>& timed = run.timed.empty() ? run.steps : run.timed;
  const bool warms_up = timed.size() > 2 * kWarmUpSteps;
  const std::vector<ReportedStep> rounds =
      rounds_of(std::span(timed).subspan(warms_up ? kWarmUpSteps : 0), exchange_every(run.run));
  const std::span<const ReportedStep> counted(rounds);
  const Positions at = positions_of(run.steps);
  const Median ms = median_over(counted, ms_of);
  const double exposed = share_of(counted, std::size(kStepParts) - 1);
  Judged judged;
  Json evals = evaluations(run, at, judged);
  const Json steps = curves(run.steps, at);
  const double sent = mean_over(std::span<const ReportedStep>(run.steps), [](const auto& s) { return s.bytes_sent; });
  const bool planned = run.plan.is_object();
  return {{"title", run.title},
          {"model", text_or(run.run, "model")},
          {"machine", text_or(run.run, "machine")},
          {"version", text_or(run.run, "version")},
          {"commit", text_or(run.run, "commit")},
          {"command", text_or(run.run, "command")},
          {"last_step", run.steps.back().step},
          {"total_steps", number_or_null(run.run, "total_steps")},
          {"step_ms", {ms.value, ms.low, ms.high}},
          {"exposed", ms.value > 0 ? Json(exposed) : Json()},
          {"bytes_a_step", finite(sent)},
          {"seconds", at.seconds.back()},
          {"last_loss", steps["loss"].back()},
          {"measure", judged.by},
          {"unit", judged.unit},
          {"steps", steps},
          {"evals", std::move(evals)},
          {"parts", parts_of(counted, ms.value)},
          {"straggler", straggler_in(run.ranks)},
          {"buckets", buckets_of(run.plan)},
          {"group", planned ? text_or(run.plan, "group") : ""},
          {"predicted_ms", planned ? number_or_null(run.plan, "step_ms") : Json()},
          {"ledger", ledger_of(run.ledger)},
          {"gradients", gradients_of(run)},
          {"timeline", Json()}};
}

/// A log's figures, and the epoch of each of its steps.
struct ReadLog {
  RunFigures figures;
  std::vector<double> epochs{};
};

ReadLog read_log(const std::string& title, const std::string& path) {
  LogFile log = LogFile::read(path);
  require<DataError>(!log.steps.empty(), path, " has no steps: let the training run for some.");
  ReadLog read{{.title = title,
                .run = std::move(log.run),
                .plan = std::move(log.plan),
                .ledger = std::move(log.ledger),
                .ranks = std::move(log.ranks),
                .evals = std::move(log.evals)}};
  for (nlohmann::json& line : log.steps) {
    read.epochs.push_back(number_or(line, "epoch", 0));
    read.figures.add(std::move(line));
  }
  return read;
}

/// Gives each step the mean time of its epoch's steps on the network, the first of an epoch left out.
void take_times(const std::vector<std::string>& logs, const std::vector<double>& epochs, RunFigures& run) {
  struct Sum {
    double ms = 0, count = 0;
  };
  std::map<double, Sum> of_epoch;
  for (const std::string& path : logs) {
    const ReadLog timed = read_log("", path);
    for (std::size_t i = 1; i < timed.epochs.size(); ++i) {
      if (timed.epochs[i] != timed.epochs[i - 1]) continue;
      run.timed.push_back(timed.figures.steps[i]);
      Sum& sum = of_epoch[timed.epochs[i]];
      sum.ms += run.timed.back().step_ms, ++sum.count;
    }
  }
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    const Sum sum = of_epoch[epochs[i]];
    run.steps[i].step_ms = sum.ms / sum.count;  // NaN where nothing was timed
  }
}

/// Puts means over seeds in the place of one run's losses.
void take_mean_losses(const std::vector<RunFigures>& seeds, RunFigures& run) {
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    double sum = run.steps[i].loss, count = 1;
    for (const RunFigures& other : seeds)
      if (i < other.steps.size()) sum += other.steps[i].loss, ++count;
    run.steps[i].loss = sum / count;
  }
}

/// Puts means over seeds in the place of one run's evaluations, the lowest and the highest beside them.
void take_mean_evals(const std::vector<RunFigures>& seeds, Json& evals) {
  const auto take = [&](const char* figure, const char* lowest, const char* highest, const auto& of) {
    Json& values = evals[figure];
    Json low = values, high = values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::vector<double> of_all;
      if (values[i].is_number()) of_all.push_back(values[i].get<double>());
      for (const RunFigures& other : seeds)
        if (i < other.evals.size())
          if (const Json value = of(other.evals[i].second); value.is_number()) of_all.push_back(value.get<double>());
      if (of_all.empty()) continue;
      low[i] = std::ranges::min(of_all), high[i] = std::ranges::max(of_all);
      values[i] = std::accumulate(of_all.begin(), of_all.end(), 0.0) / static_cast<double>(of_all.size());
    }
    evals[lowest] = std::move(low), evals[highest] = std::move(high);
  };
  take("value", "low", "high", [](const nlohmann::json& eval) { return quality_of(eval).value; });
  take("loss", "loss_low", "loss_high", [](const nlohmann::json& eval) { return number_or_null(eval, "loss"); });
}

Json object(const ReportedRun& run) {
  auto [figures, epochs] = read_log(run.title, run.log);
  std::vector<RunFigures> seeds;
  for (const std::string& path : run.seeds) seeds.push_back(read_log("", path).figures);
  if (!run.timed.empty()) take_times(run.timed, epochs, figures);
  take_mean_losses(seeds, figures);
  Json all = object(figures);
  if (!seeds.empty()) {
    take_mean_evals(seeds, all["evals"]);
    all["seeds"] = 1 + seeds.size();
  }
  if (!run.timed.empty()) all["timed_apart"] = true;
  if (run.step_ms) all["step_ms"] = {run.step_ms->value, run.step_ms->low, run.step_ms->high};
  if (run.ratio) all["ratio"] = {run.ratio->value, run.ratio->low, run.ratio->high};
  if (run.target) all["target"] = *run.target;
  for (const auto& [column, cell] : run.further) all["further"][column] = cell;
  if (!run.trace.empty()) all["timeline"] = timeline_of(read_trace(run.trace), run.trace);
  return all;
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// The page with texts in the places that are kept for them.
std::string page_with(const std::string& runs, const std::string& live) {
  std::string page = kReportPageSource;
  for (const auto& [place, text] : {std::pair<std::string, std::string>{"/*RUNS*/", runs}, {"/*LIVE*/", live}})
    page.replace(page.find(place), place.size(), text);
  return page;
}

}  // namespace

void RunFigures::add(nlohmann::json line) {
  for (auto [name, place] : {std::pair{"run", &run}, {"plan", &plan}, {"ledger", &ledger}})
    if (line.contains(name)) *place = std::move(line[name]);
  if (line.contains("ranks")) ranks = joined(ranks, ranks_from(line["ranks"]));
  if (line.contains("eval")) evals.emplace_back(steps.size(), std::move(line["eval"]));
  if (line.contains("step")) steps.push_back(figures_of_step(line));
  if (line.contains("step") && line.contains("gradients"))
    gradients.emplace_back(steps.back().step, std::move(line["gradients"]));
}

std::string drawn_as_json(const RunFigures& run) { return dumped(object(run)); }

std::string live_page() { return page_with("[]", "true"); }

std::string report_page(const std::vector<ReportedRun>& runs) {
  Json all = Json::array();
  for (const ReportedRun& run : runs) all.push_back(object(run));
  std::string data = dumped(all);
  for (std::size_t i = 0; (i = data.find('<', i)) != std::string::npos;) data.replace(i, 1, "\\u003c");  // no </script>
  return page_with(data, "false");
}

void write_report(const std::vector<ReportedRun>& runs, const std::string& path) {
  AtomicFile file(path);
  file.write(report_page(runs));
  file.commit();
}

}  // namespace laconic
