#include "apps/compare/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/text.h"

namespace laconic {
namespace {

constexpr std::size_t kBlocks = 15, kLeastSteps = 3;  // in all runs of a set together; steps of a block

std::size_t warm_up_of(std::size_t steps, std::optional<int> given) {
  const std::size_t n = given ? static_cast<std::size_t>(*given) : std::min<std::size_t>(20, steps / 5);
  return std::min(n, steps - 1);
}

template <class Value>
double median_of(const std::vector<Trial::Step>& steps, Value value) {
  std::vector<double> values;
  for (const auto& s : steps) values.push_back(std::invoke(value, s));
  return median(values).value;
}

/// The median step time of `parts` equal parts of the run.
std::vector<double> parts_of(const std::vector<Trial::Step>& steps, std::size_t parts) {
  std::vector<double> medians;
  for (std::size_t p = 0; p < parts; ++p) {
    const auto begin = steps.begin() + static_cast<std::ptrdiff_t>(p * steps.size() / parts);
    const auto end = steps.begin() + static_cast<std::ptrdiff_t>((p + 1) * steps.size() / parts);
    medians.push_back(median_of({begin, end}, &Trial::Step::ms));
  }
  return medians;
}

bool resolved(const Row& r) {
  return r.blocks >= static_cast<std::size_t>(kRunsForInterval) && (r.ratio->low > 1 || r.ratio->high < 1);
}

std::string interval(const Median& m, int decimals) {
  return fmt::format("{:.{}f} ({:.{}f} … {:.{}f})", m.value, decimals, m.low, decimals, m.high, decimals);
}

/// "91.02 ± 0.13"; without the spread of one run.
std::string mean_text(std::optional<double> mean, std::optional<double> spread, int decimals) {
  if (!mean) return "–";
  return fmt::format("{:.{}f}", *mean, decimals) + (spread ? fmt::format(" ± {:.{}f}", *spread, decimals) : "");
}

/// Mean and standard deviation over runs; the latter needs two of them.
void summarise_runs(const std::vector<double>& values, std::optional<double>& mean, std::optional<double>& spread) {
  if (values.empty()) return;
  const auto n = static_cast<double>(values.size());
  double centre = 0, squares = 0;
  for (double v : values) centre += v / n;
  for (double v : values) squares += (v - centre) * (v - centre);
  mean = centre;
  if (values.size() > 1) spread = std::sqrt(squares / (n - 1));
}

int decimals_for(double value) { return value < 10 ? 2 : value < 100 ? 1 : 0; }

/// A width in letters, not bytes: "…" counts one.
std::size_t letters(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

using Cells = std::vector<std::vector<std::string>>;  // the first line is the head

Cells cells(const TableHead& head, const std::vector<Row>& rows) {
  const auto any = [&](auto has) { return std::any_of(rows.begin(), rows.end(), has); };
  const bool accuracy = any([](const Row&r) { return r.accuracy.has_value(); }),
             perplexity = any([](const Row&r) { return r.perplexity.has_value(); }),
             loss = !perplexity && any([](const Row&r) { return r.loss.has_value(); }),
             bound = any([](const Row&r) { return r.bound_ms.has_value(); });
  Cells all{{"set", "ms a step (95 %)", "to the first (95 %)", "MB sent", "of dense", "exposed ms"}};
  if (accuracy) all[0].push_back("accuracy %");
  if (loss) all[0].push_back("test loss");
  if (perplexity) all[0].push_back("perplexity");
  if (head.target_accuracy) all[0].push_back(fmt::format("s to {:g} %", *head.target_accuracy));
  if (bound) all[0].insert(all[0].end(), {"computing ms", "exchanging ms", "bound ms", "over bound"});
  for (const Row& r : rows) {
    all.push_back({r.label});
    auto& line = all.back();
    if (r.runs == 0) {
      line.resize(all[0].size(), "–");
      line[1] = "failed";
      continue;
    }
    line.push_back(interval(r.step_ms, decimals_for(r.step_ms.value)));
    line.push_back(&r == &rows[0] ? "1"
                   : !r.ratio     ? "–"
                                  : interval(*r.ratio, 3) + (resolved(r) ? "" : " not resolved"));
    line.push_back(r.bytes_sent ? fmt::format("{:.3f}", *r.bytes_sent / 1e6) : "not counted");
    line.push_back(r.bytes_sent && r.bytes_dense > 0 ? fmt::format("{:.1f} %", 100 * *r.bytes_sent / r.bytes_dense)
                                                     : "–");
    line.push_back(fmt::format("{:.{}f}", r.exposed_ms, decimals_for(r.step_ms.value)));
    if (accuracy) line.push_back(mean_text(r.accuracy, r.accuracy_spread, 2));
    if (loss) line.push_back(mean_text(r.loss, r.loss_spread, 4));
    if (perplexity) line.push_back(mean_text(r.perplexity, r.perplexity_spread, 2));
    if (head.target_accuracy)
      line.push_back(r.seconds_to_target ? fmt::format("{:.1f}", *r.seconds_to_target)
                                         : fmt::format("reached by {} of {}", r.reached_target, r.runs));
    if (bound) {
      for (const auto& ms : {r.compute_ms, r.exchange_ms, r.bound_ms})
        line.push_back(ms ? fmt::format("{:.{}f}", *ms, decimals_for(r.step_ms.value)) : "–");
      line.push_back(r.bound_ms ? fmt::format("{:.2f}", r.step_ms.value / *r.bound_ms) : "–");
    }
  }
  return all;
}

/// What a reader must know to believe the intervals.
std::string notes(const TableHead& head, const std::vector<Row>& rows) {
  std::string text;
  std::size_t blocks = 0;
  for (const Row& r : rows) blocks = std::max(blocks, r.blocks);
  if (head.repeat >= kRunsForInterval)
    text += fmt::format("Intervals are over {} runs of each set, which ran in turns.", head.repeat);
  else
    text += fmt::format(
        "Intervals are over {} blocks of steps{}; whole runs may differ by more: --repeat {} or more shows it.", blocks,
        head.repeat > 1 ? fmt::format(" of {} runs of each set in turns", head.repeat) : " of one run of each set",
        kRunsForInterval);
  if (std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.ratio && !resolved(r); }))
    text += fmt::format(
        " Not resolved: the interval holds 1 or is over fewer than {} blocks, so this table does not tell which is "
        "faster.",
        kRunsForInterval);
  if (std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.bound_ms.has_value(); }))
    text += " Bound: the step that per-layer times, bytes and the link's rate allow.";
  return text;
}

std::string errors(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& r : rows)
    if (!r.error.empty()) text += fmt::format("{} failed: {}\n", r.label, r.error);
  return text;
}

nlohmann::ordered_json to_json(const Median& m) { return {{"median", m.value}, {"low", m.low}, {"high", m.high}}; }

}  // namespace

std::vector<Row> summarise(const std::vector<std::vector<Trial>>& trials, std::optional<int> warm_up,
                           std::optional<double> target_accuracy) {
  // Steps without warm-up, and in how many blocks a run is cut: the same for all sets, so that they pair.
  std::vector<std::vector<std::vector<Trial::Step>>> counted(trials.size());
  std::size_t runs = 0, fewest = 1'000'000'000;
  for (std::size_t s = 0; s < trials.size(); ++s)
    for (const Trial& t : trials[s]) {
      runs = std::max(runs, trials[s].size());
      counted[s].push_back(t.steps);
      auto& steps = counted[s].back();
      if (!t.error.empty()) steps.clear();
      if (steps.empty()) continue;
      steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(warm_up_of(steps.size(), warm_up)));
      fewest = std::min(fewest, steps.size());
    }
  const std::size_t wanted = runs >= kRunsForInterval || runs == 0 ? 1 : (kBlocks + runs - 1) / runs;
  const std::size_t parts = std::max<std::size_t>(1, std::min(wanted, fewest / kLeastSteps));

  std::vector<Row> rows(trials.size());
  for (std::size_t s = 0; s < trials.size(); ++s) {
    Row& row = rows[s];
    std::vector<double> blocks, ratios, accuracies, losses, perplexities, times;
    std::vector<Trial::Step> all;
    std::size_t evaluated = 0;  // runs
    for (std::size_t r = 0; r < trials[s].size(); ++r) {
      const Trial& trial = trials[s][r];
      if (!trial.error.empty()) {
        if (row.error.empty()) row.error = trial.error;
        continue;
      }
      ++row.runs;
      const auto own = parts_of(counted[s][r], parts);
      blocks.insert(blocks.end(), own.begin(), own.end());
      all.insert(all.end(), counted[s][r].begin(), counted[s][r].end());
      if (s > 0 && r < counted[0].size() && !counted[0][r].empty()) {
        const auto first = parts_of(counted[0][r], parts);
        for (std::size_t p = 0; p < parts; ++p) ratios.push_back(own[p] / first[p]);
      }
      if (!trial.evaluations.empty()) {
        const Trial::Evaluation& last = trial.evaluations.back();
        if (last.accuracy) accuracies.push_back(*last.accuracy);
        if (last.loss) losses.push_back(*last.loss);
        if (last.perplexity) perplexities.push_back(*last.perplexity);
        ++evaluated;
      }
      if (!target_accuracy) continue;
      const auto reached = std::find_if(trial.evaluations.begin(), trial.evaluations.end(),
                                        [&](const auto& e) { return e.accuracy >= *target_accuracy; });
      if (reached != trial.evaluations.end()) times.push_back(reached->seconds), ++row.reached_target;
    }
    if (row.runs == 0) continue;
    row.blocks = blocks.size();
    row.step_ms = median(blocks);
    if (!ratios.empty()) row.ratio = median(ratios);
    if (std::all_of(all.begin(), all.end(), [](const auto& s) { return s.bytes_sent.has_value(); }))
      row.bytes_sent = median_of(all, [](const auto& s) { return *s.bytes_sent; });
    row.bytes_dense = median_of(all, &Trial::Step::bytes_dense);
    row.exposed_ms = median_of(all, &Trial::Step::exposed_ms);
    if (row.reached_target == row.runs) row.seconds_to_target = median(times).value;
    summarise_runs(accuracies, row.accuracy, row.accuracy_spread);
    if (losses.size() == evaluated) summarise_runs(losses, row.loss, row.loss_spread);
    if (perplexities.size() == evaluated) summarise_runs(perplexities, row.perplexity, row.perplexity_spread);
  }
  return rows;
}

std::string table_text(const TableHead& head, const std::vector<Row>& rows) {
  const Cells all = cells(head, rows);
  std::vector<std::size_t> widths(all[0].size());
  for (const auto& line : all)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], letters(line[c]));
  std::string text = head.where + "\n" + head.what + "\n\n";
  for (const auto& line : all) {
    std::string row = line[0] + std::string(widths[0] - letters(line[0]), ' ');
    for (std::size_t c = 1; c < line.size(); ++c)
      row += "  " + std::string(widths[c] - letters(line[c]), ' ') + line[c];
    text += row + "\n";
  }
  return text + "\n" + errors(rows) + notes(head, rows) + "\nAgain: " + head.command + "\n";
}

std::string table_markdown(const TableHead& head, const std::vector<Row>& rows) {
  std::string text = head.where + "\n" + head.what + "\n\n", rule = "|";
  const Cells all = cells(head, rows);
  for (std::size_t c = 0; c < all[0].size(); ++c) rule += "---|";
  for (std::size_t l = 0; l < all.size(); ++l) {
    text += "|";
    for (std::string cell : all[l]) {
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.insert(at, "\\");
      text += " " + cell + " |";
    }
    text += "\n" + (l == 0 ? rule + "\n" : "");
  }
  return text + "\n" + errors(rows) + notes(head, rows) + "\n\n    " + head.command + "\n";
}

std::string table_json(const TableHead& head, const std::vector<Row>& rows) {
  auto sets = nlohmann::ordered_json::array();
  for (const Row& r : rows) {
    nlohmann::ordered_json set = {{"label", r.label}, {"options", r.options}, {"runs", r.runs}};
    if (!r.error.empty()) set["error"] = r.error;
    if (r.runs > 0) {
      set["step_ms"] = to_json(r.step_ms);
      set["blocks"] = r.blocks;
      if (r.ratio) {
        set["ratio"] = to_json(*r.ratio);
        set["ratio"]["resolved"] = resolved(r);
      }
      set["bytes_sent"] = r.bytes_sent ? nlohmann::ordered_json(*r.bytes_sent) : nlohmann::ordered_json();
      set["bytes_dense"] = r.bytes_dense, set["exposed_ms"] = r.exposed_ms;
      if (r.accuracy) set["accuracy"] = *r.accuracy;
      if (r.accuracy_spread) set["accuracy_spread"] = *r.accuracy_spread;
      if (r.loss) set["loss"] = *r.loss;
      if (r.loss_spread) set["loss_spread"] = *r.loss_spread;
      if (r.perplexity) set["perplexity"] = *r.perplexity;
      if (r.perplexity_spread) set["perplexity_spread"] = *r.perplexity_spread;
      if (head.target_accuracy) set["reached_target"] = r.reached_target;
      if (r.seconds_to_target) set["seconds_to_target"] = *r.seconds_to_target;
      if (r.compute_ms) set["compute_ms"] = *r.compute_ms;
      if (r.exchange_ms) set["exchange_ms"] = *r.exchange_ms;
      if (r.bound_ms) set["bound_ms"] = *r.bound_ms, set["over_bound"] = r.step_ms.value / *r.bound_ms;
    }
    sets.push_back(set);
  }
  nlohmann::ordered_json all = {
      {"where", head.where}, {"what", head.what}, {"command", head.command}, {"repeat", head.repeat}};
  if (head.target_accuracy) all["target_accuracy"] = *head.target_accuracy;
  all["sets"] = sets;
  return all.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace laconic
