#include "apps/compare/learning.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "apps/common/result_table.h"
#include "apps/common/statistics.h"
#include "apps/common/text.h"

namespace laconic {
namespace {

/// Epochs whose steps differ by less belong to one phase.
constexpr double kAlike = 0.2;
/// From such a difference on, bytes on the network and bytes while learning are told apart.
constexpr double kOtherBytes = 0.1;

std::optional<double> figure_of(const Trial::Evaluation& e, bool perplexity) {
  return perplexity ? e.perplexity : e.accuracy;
}

bool reaches(double figure, double target, bool perplexity) { return perplexity ? figure <= target : figure >= target; }

/// The times of steps by epoch, but for its first, where the loading of data begins; of each round together.
using EpochTimes = std::map<std::int64_t, std::vector<double>>;

/// The steps of each epoch, without the last one of the run: it waits for its own messages too. A last epoch that
/// --steps has cut to less than a round is left out: no wait of a whole round is in it.
std::map<std::int64_t, std::vector<LoggedStep>> epochs_of(const Trial& timed) {
  std::map<std::int64_t, std::vector<LoggedStep>> epochs;
  for (const LoggedStep& step : timed.steps) epochs[static_cast<std::int64_t>(step.epoch)].push_back(step);
  if (epochs.empty()) return epochs;
  const auto every = static_cast<std::size_t>(timed.exchange_every);
  const auto last = std::prev(epochs.end());
  std::vector<LoggedStep>& steps = last->second;
  if (every > 1 && epochs.size() > 1 && steps.size() <= every && steps.size() < std::prev(last)->second.size())
    epochs.erase(last);
  else if (steps.size() >= every + 2)  // a round remains, and the first step, which is not counted
    steps.pop_back();
  return epochs;
}

void add_times(const Trial& timed, EpochTimes& times) {
  for (auto& [epoch, steps] : epochs_of(timed)) {
    const auto every = static_cast<std::size_t>(timed.exchange_every);
    for (const LoggedStep& round : rounds_of(std::span(steps).subspan(1), every)) times[epoch].push_back(round.step_ms);
  }
}

/// Why figures of a set may mislead; empty if nothing is known.
std::string caveat_of(const std::vector<const Trial*>& learned, const std::vector<Trial>& timed) {
  for (const Trial& trial : timed) {
    if (!trial.error.empty()) continue;
    for (const Trial* run : learned) {
      if (run->build != trial.build)
        return fmt::format("learned with {}, and was timed with {}", run->build, trial.build);
      if (run->workers != trial.workers)
        return fmt::format("learned with {}, and was timed with {}: give --workers", plural(run->workers, "worker"),
                           trial.workers);
    }
    for (const auto& [epoch, steps] : epochs_of(trial))
      if (trial.exchange_every > 1 && static_cast<std::int64_t>(steps.size()) <= trial.exchange_every)
        return fmt::format("exchanges once in {} steps: its time is right from --learn {} on", trial.exchange_every,
                           trial.exchange_every + 1);
  }
  return "";
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The training until the end of an epoch; empty if an epoch was not timed.
std::vector<LearningPhase> phases_until(const Trial& learned, const EpochTimes& times, std::int64_t last_epoch) {
  std::map<std::int64_t, std::int64_t> steps;
  for (const LoggedStep& step : learned.steps) ++steps[static_cast<std::int64_t>(step.epoch)];
  std::vector<LearningPhase> phases;
  double first = 0;
  for (const auto& [epoch, count] : steps) {
    if (epoch > last_epoch) break;
    const auto found = times.find(epoch);
    if (found == times.end()) return {};
    const double ms = mean_of(found->second);
    if (phases.empty() || std::abs(ms / first - 1) > kAlike) phases.emplace_back(), first = ms;
    LearningPhase& phase = phases.back();
    phase.ms = (phase.ms * static_cast<double>(phase.steps) + ms * static_cast<double>(count)) /
               static_cast<double>(phase.steps + count);
    phase.steps += count;
  }
  return phases;
}

double seconds_of(const std::vector<LearningPhase>& phases) {
  double ms = 0;
  for (const LearningPhase& phase : phases) ms += static_cast<double>(phase.steps) * phase.ms;
  return ms / 1e3;
}

/// The first epoch after which the mean over runs has come to the target; 0: none.
std::int64_t epoch_of(const std::vector<const Trial*>& runs, double target, bool perplexity) {
  if (runs.empty()) return 0;
  for (std::size_t e = 0; e < runs[0]->evaluations.size(); ++e) {
    double sum = 0;
    for (const Trial* run : runs) {
      const auto figure = e < run->evaluations.size() ? figure_of(run->evaluations[e], perplexity) : std::nullopt;
      sum += figure.value_or(std::numeric_limits<double>::quiet_NaN());
    }
    if (reaches(sum / static_cast<double>(runs.size()), target, perplexity)) return runs[0]->evaluations[e].epoch;
  }
  return 0;
}

std::optional<double> mean_bytes(const std::vector<Trial>& trials) {
  std::vector<double> bytes;
  for (const Trial& trial : trials)
    for (const LoggedStep& step : trial.steps) bytes.push_back(step.bytes_sent);
  const double mean = mean_of(bytes);  // NaN where there are none, or some were not counted
  return std::isfinite(mean) ? std::optional(mean) : std::nullopt;
}

std::string arithmetic(const LearningRow& row) {
  std::vector<std::string> parts;
  for (const LearningPhase& phase : row.phases) parts.push_back(fmt::format("{} x {:.4g} ms", phase.steps, phase.ms));
  return join(parts, " + ");
}

/// "0.42 better", "0.31 behind: within one", "1.20 behind: 2.4 of them", standard errors
std::string behind_text(const Learning& all, const LearningRow& row) {
  if (std::abs(row.behind) < 0.005) return "level";
  if (row.behind < 0) return fmt::format("{:.2f} better", -row.behind);
  if (row.behind <= all.standard_error) return fmt::format("{:.2f} behind: within one", row.behind);
  if (all.standard_error == 0) return fmt::format("{:.2f} behind", row.behind);
  return fmt::format("{:.2f} behind: {:.1f} of them", row.behind, row.behind / all.standard_error);
}

ResultTable learning_table(const Learning& all, bool markdown) {
  ResultTable table(markdown, std::nullopt, "–");
  for (const LearningRow& row : all.rows) {
    const bool is_first = &row == &all.rows[0];
    Cells cells{{"set", "label", row.label}, {"", "options", row.options}, {"", "runs", row.runs}};
    if (!row.error.empty()) cells.emplace_back("", "error", row.error);
    if (row.end)
      cells.emplace_back(
          all.perplexity ? "perplexity" : "accuracy %", all.perplexity ? "perplexity" : "accuracy", *row.end,
          fmt::format("{:.2f}", *row.end) + (row.end_spread ? fmt::format(" ± {:.2f}", *row.end_spread) : ""));
    else
      cells.emplace_back(all.perplexity ? "perplexity" : "accuracy %", "", "failed");
    if (row.end && !is_first) cells.emplace_back("to the first", "behind", row.behind, behind_text(all, row));
    if (row.bytes) cells.emplace_back("MB a step", "bytes_sent", *row.bytes, "{:.3f}", 1e-6);
    cells.emplace_back("", "timed_bytes_sent", row.timed_bytes);
    if (!row.caveat.empty()) cells.emplace_back("", "caveat", row.caveat);
    if (row.seconds) {
      cells.emplace_back("epochs", "epochs", row.epochs);
      cells.emplace_back("steps x time", "", arithmetic(row));
      cells.emplace_back("s to the target", "seconds", to_json(*row.seconds), with_interval(*row.seconds, "{:.4g}"));
    } else if (row.end) {
      cells.emplace_back("s to the target", "", row.epochs == 0 ? "not reached" : "not timed");
    }
    if (row.speedup) cells.emplace_back("times as fast", "speedup", to_json(*row.speedup), with_interval(*row.speedup));
    table.add(std::move(cells));
  }
  return table;
}

std::string learning_notes(const Learning& all) {
  if (!all.rows[0].end) return "";
  std::string text =
      all.perplexity
          ? fmt::format("Target: a perplexity of {:.2f}, the end of {} plus its deviation over seeds, {:.2f}.",
                        all.target, all.rows[0].label, all.standard_error)
          : fmt::format(
                "Target: an accuracy of {:.2f}, the end of {} less one standard error, {:.2f} (of {} test samples).",
                all.target, all.rows[0].label, all.standard_error, all.samples);
  text +=
      " Over seeds means are taken. Seconds leave evaluation out. Their intervals are those of the steps' times alone.";
  for (const LearningRow& row : all.rows)
    if (!row.caveat.empty()) text += fmt::format(" {} {}.", row.label, row.caveat);
  for (const LearningRow& row : all.rows)
    if (row.bytes && row.timed_bytes && std::abs(*row.timed_bytes / *row.bytes - 1) > kOtherBytes)
      text += fmt::format(" {} sent {:.2f} times as much while learning as while it was timed.", row.label,
                          *row.bytes / *row.timed_bytes);
  return text;
}

}  // namespace

Learning put_together(const std::vector<std::vector<Trial>>& learned, const std::vector<std::vector<Trial>>& timed) {
  Learning all;
  all.rows.resize(learned.size());
  const auto usable = [](const Trial& trial) { return trial.error.empty() && !trial.evaluations.empty(); };
  for (const Trial& trial : learned[0])
    if (usable(trial)) {
      const Trial::Evaluation& last = trial.evaluations.back();
      all.perplexity |= last.perplexity.has_value(), all.samples = last.samples;
    }
  for (std::size_t s = 0; s < learned.size(); ++s) {
    LearningRow& row = all.rows[s];
    for (const auto* trials : {&learned[s], &timed[s]})
      for (const Trial& trial : *trials)
        if (row.error.empty()) row.error = trial.error;
    for (const Trial& trial : learned[s])
      if (row.error.empty() && trial.evaluations.empty()) row.error = "it was not evaluated: leave --eval-every 0 out";
    for (const Trial& trial : learned[s])
      if (usable(trial)) {
        const auto figure = figure_of(trial.evaluations.back(), all.perplexity);
        if (figure) row.ends.push_back(*figure);
        if (!figure && row.error.empty()) row.error = "a training did not end at a finite result";
      }
    mean_and_deviation(row.ends, row.end, row.end_spread);
    row.bytes = mean_bytes(learned[s]), row.timed_bytes = mean_bytes(timed[s]);
  }
  const LearningRow& first = all.rows[0];
  if (!first.end) return all;
  all.standard_error = all.perplexity    ? first.end_spread.value_or(0)
                       : all.samples > 0 ? std::sqrt(*first.end * (100 - *first.end) / static_cast<double>(all.samples))
                                         : 0;
  all.target = all.perplexity ? *first.end + all.standard_error : *first.end - all.standard_error;

  std::vector<std::optional<double>> of_first(timed[0].size());  // seconds of each turn
  for (std::size_t s = 0; s < learned.size(); ++s) {
    LearningRow& row = all.rows[s];
    if (!row.end) continue;
    row.behind = all.perplexity ? *row.end - *first.end : *first.end - *row.end;
    std::vector<const Trial*> runs;
    for (const Trial& trial : learned[s])
      if (usable(trial)) runs.push_back(&trial);
    row.runs = static_cast<int>(runs.size());
    row.caveat = caveat_of(runs, timed[s]);
    row.epochs = epoch_of(runs, all.target, all.perplexity);
    if (row.epochs == 0) continue;
    EpochTimes of_all;
    std::vector<double> seconds, speedups;
    for (std::size_t turn = 0; turn < timed[s].size(); ++turn) {
      if (!timed[s][turn].error.empty()) continue;
      EpochTimes own;
      add_times(timed[s][turn], own);
      add_times(timed[s][turn], of_all);
      const auto phases = phases_until(*runs[0], own, row.epochs);
      if (phases.empty()) continue;
      seconds.push_back(seconds_of(phases));
      if (s == 0)
        of_first[turn] = seconds.back();
      else if (turn < of_first.size() && of_first[turn])
        speedups.push_back(*of_first[turn] / seconds.back());
    }
    row.phases = phases_until(*runs[0], of_all, row.epochs);
    if (row.phases.empty() || seconds.empty()) continue;
    row.seconds = median(seconds);
    row.seconds->value = seconds_of(row.phases);
    if (!speedups.empty()) row.speedup = median(speedups);
  }
  return all;
}

std::string learning_text(const TableHead& head, const Learning& learning, bool markdown) {
  return around(head, learning_table(learning, markdown), learning_notes(learning), markdown);
}

std::string learning_json(const TableHead& head, const Learning& learning) {
  Cell::Json all = {{"where", head.where},   {"what", head.what},         {"command", head.command},
                    {"repeat", head.repeat}, {"target", learning.target}, {"standard_error", learning.standard_error}};
  all["sets"] = learning_table(learning, false).objects();
  for (std::size_t s = 0; s < learning.rows.size(); ++s) all["sets"][s]["ends"] = learning.rows[s].ends;
  for (std::size_t s = 0; s < learning.rows.size(); ++s)
    for (const LearningPhase& phase : learning.rows[s].phases)
      all["sets"][s]["phases"].push_back({{"steps", phase.steps}, {"ms", phase.ms}});
  return all.dump(-1, ' ', false, Cell::Json::error_handler_t::replace);
}

}  // namespace laconic
