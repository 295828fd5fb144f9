#include "apps/compare/table.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <limits>
#include <span>

#include "apps/common/terminal.h"
#include "apps/common/text.h"
#include "apps/launch/child_process.h"
#include "core/base/json.h"

namespace laconic {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

double number(const nlohmann::json& object, const char* key) { return number_field(object, key).value_or(0); }

/// A number that counts something; 0 where there is none, or none that can be counted.
template <class T>
T count(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  try {
    return found != object.end() ? whole_in<T>(*found) : 0;
  } catch (const nlohmann::json::exception&) {
    return 0;
  }
}

/// Says in one line what went wrong: by our sentence if there is one, else by the last words.
std::string error_in(const std::string& err, int exit_code) {
  const LastWords last = last_words(err);
  if (last.is_error) return last.text;
  if (!last.text.empty()) return fmt::format("exit code {}: {}", exit_code, last.text);
  return fmt::format("it ended with exit code {} and said nothing", exit_code);
}

}  // namespace

Trial read_trial(const std::string& log, const std::string& out, const std::string& err, int exit_code) {
  Trial t;
  const bool interrupted = exit_code == 128 + SIGINT || exit_code == 128 + SIGTERM || exit_code == 128 + SIGHUP;
  if (interrupted) t.error = "interrupted";  // its own words are better, if it came to them
  if (exit_code != 0 && !interrupted) {
    t.error = error_in(err, exit_code);
    return t;
  }
  for (const auto& line : lines_of(out)) {
    const auto summary = json_or_discarded(line);
    if (!summary.is_object() || !summary.contains("model")) continue;
    t.model = text_field(summary, "model");
    t.workers = count<int>(summary, "workers"), t.threads = count<int>(summary, "threads"),
    t.batch = count<int>(summary, "batch"), t.classes = count<int>(summary, "classes");
    t.exchange_every = std::max<std::int64_t>(1, count<std::int64_t>(summary, "exchange_every"));
    if (summary.contains("steps")) t.steps_made = count<std::int64_t>(summary, "steps");
    if (summary.contains("stopped")) t.error = "stopped early: " + text_field(summary, "stopped");
  }
  for (const auto& line : lines_of(log)) {
    const auto entry = json_or_discarded(line);
    if (!entry.is_object()) continue;
    if (entry.contains("run")) {
      t.build = text_field(entry["run"], "version") + " " + text_field(entry["run"], "commit");
    } else if (entry.contains("eval")) {
      const auto& eval = entry["eval"];
      t.evaluations.push_back({number(eval, "seconds"), std::nullopt, number_field(eval, "loss"),
                               number_field(eval, "perplexity"), count<std::int64_t>(eval, "epoch"),
                               count<std::int64_t>(eval, "samples")});
      if (const auto error = number_field(eval, "top1_error")) t.evaluations.back().accuracy = 100 - *error;
    } else if (entry.contains("step")) {
      t.steps.push_back(step_from(entry));
    }
  }
  if (t.error.empty() && t.model.empty())
    t.error = "its output has no line of JSON at the end: is it a training program of laconic?";
  if (t.error.empty() && t.steps.empty()) t.error = "it made no step: give it --steps or --epochs";
  return t;
}

std::optional<LastStep> last_step(const std::string& log) {
  constexpr std::streamoff kTail = 4096;
  std::ifstream in(log, std::ios::binary | std::ios::ate);
  in.seekg(std::max<std::streamoff>(0, in.tellg() - kTail));
  std::optional<LastStep> last;
  for (std::string line; std::getline(in, line) && !in.eof();)  // the last line is still written
    if (const auto entry = json_or_discarded(line); entry.is_object() && entry.contains("step"))
      last = {count<long long>(entry, "step"), number(entry, "step_ms")};
  return last;
}

namespace {

constexpr std::size_t kBlocks = 15, kLeastSteps = 3;  // in all runs of a set together; steps of a block

std::size_t warm_up_of(std::size_t steps, std::optional<int> given) {
  const std::size_t n = given ? static_cast<std::size_t>(*given) : std::min<std::size_t>(20, steps / 5);
  return std::min(n, steps - 1);
}

/// The median step time of `parts` equal parts of the run.
std::vector<double> parts_of(const std::vector<LoggedStep>& steps, std::size_t parts) {
  std::vector<double> medians;
  for (std::size_t p = 0; p < parts; ++p) {
    const std::size_t begin = p * steps.size() / parts, end = (p + 1) * steps.size() / parts;
    medians.push_back(median_over(std::span(steps).subspan(begin, end - begin), ms_of).value);
  }
  return medians;
}

bool resolved(const Row& r) {
  return r.ratio->count >= static_cast<std::size_t>(kRunsForInterval) && r.ratio_of_rounds &&
         (r.ratio->low > 1 || r.ratio->high < 1);
}

Cells figures(const TableHead& head, const Row& r, bool is_first, bool perplexity, bool bound) {
  Cells row{{"set", "label", r.label}, {"", "options", r.options}, {"", "runs", r.runs}};
  if (!r.error.empty()) row.emplace_back("", "error", r.error);
  if (r.runs == 0) {
    row.emplace_back("ms a step (95 %)", "", "failed");
    return row;
  }
  const char* const form = r.step_ms.value < 10 ? "{:.2f}" : r.step_ms.value < 100 ? "{:.1f}" : "{:.0f}";
  Cell ratio("to the first (95 %)", "", is_first ? "1" : "–");
  if (r.ratio) {
    ratio = {ratio.head, "ratio", to_json(*r.ratio),
             with_interval(*r.ratio, "{:.3f}") + (resolved(r) ? "" : " not resolved")};
    ratio.value["resolved"] = resolved(r);
  }
  row.insert(row.end(),
             {{"ms a step (95 %)", "step_ms", to_json(r.step_ms), with_interval(r.step_ms, form)},
              {"", "blocks", r.blocks},
              ratio,
              r.bytes_sent ? Cell("MB sent", "bytes_sent", *r.bytes_sent, "{:.3f}", 1e-6)
                           : Cell("MB sent", "bytes_sent", Cell::Json(), "not counted"),
              r.bytes_sent && r.bytes_dense > 0 ? Cell("of dense", "", 100 * *r.bytes_sent / r.bytes_dense, "{:.1f} %")
                                                : Cell("of dense", "", "–"),
              {"", "bytes_dense", r.bytes_dense},
              {"exposed ms", "exposed_ms", r.exposed_ms, form}});
  const auto add_mean = [&](const char* column, const std::string& key, const std::optional<double>& mean,
                            const std::optional<double>& spread, int decimals) {
    if (mean)
      row.emplace_back(
          column, key, *mean,
          fmt::format("{:.{}f}", *mean, decimals) + (spread ? fmt::format(" ± {:.{}f}", *spread, decimals) : ""));
    row.emplace_back("", key + "_spread", spread);
  };
  add_mean("accuracy %", "accuracy", r.accuracy, r.accuracy_spread, 2);
  add_mean(perplexity ? "" : "test loss", "loss", r.loss, r.loss_spread, 4);
  add_mean("perplexity", "perplexity", r.perplexity, r.perplexity_spread, 2);
  if (head.target_accuracy) {
    const std::string column = fmt::format("s to {:g} %", *head.target_accuracy);
    row.emplace_back("", "reached_target", r.reached_target);
    row.push_back(r.seconds_to_target ? Cell(column, "seconds_to_target", *r.seconds_to_target, "{:.1f}")
                                      : Cell(column, "", fmt::format("reached by {} of {}", r.reached_target, r.runs)));
  }
  row.emplace_back(bound ? "computing ms" : "", "compute_ms", r.compute_ms, form);
  row.emplace_back("exchanging ms", "exchange_ms", r.exchange_ms, form);
  row.emplace_back("bound ms", "bound_ms", r.bound_ms, form);
  if (r.bound_ms) row.emplace_back("over bound", "over_bound", r.step_ms.value / *r.bound_ms, "{:.2f}");
  return row;
}

ResultTable table_of(const TableHead& head, const std::vector<Row>& rows, bool markdown) {
  const auto any = [&](auto figure) {
    return std::any_of(rows.begin(), rows.end(), [&](const Row& r) { return (r.*figure).has_value(); });
  };
  ResultTable table(markdown, std::nullopt, "–");
  for (const Row& r : rows) table.add(figures(head, r, &r == &rows[0], any(&Row::perplexity), any(&Row::bound_ms)));
  return table;
}

/// What a reader must know to believe the intervals.
std::string notes(const std::vector<Row>& rows) {
  std::string text;
  std::size_t blocks = 0;
  int fewest = std::numeric_limits<int>::max(), most = 0;  // runs that ended well
  for (const Row& r : rows) {
    blocks = std::max(blocks, r.blocks);
    if (r.runs > 0) fewest = std::min(fewest, r.runs), most = std::max(most, r.runs);
  }
  const std::string runs = fewest < most ? fmt::format("{} to {}", fewest, most) : std::to_string(most);
  if (most >= kRunsForInterval)
    text += fmt::format("Intervals are over {} runs of each set, which ran in turns.", runs);
  else if (most > 0)
    text += fmt::format(
        "Intervals are over {} blocks of steps{}; whole runs may differ by more: --repeat {} or more shows it.", blocks,
        most > 1 ? fmt::format(" of {} runs of each set in turns", runs) : " of one run of each set", kRunsForInterval);
  for (const Row& r : rows)
    if (r.exchange_every > 1 && r.whole_rounds)
      text += fmt::format(" {} exchanges once in {} steps: as many count as one, by their mean.", r.label,
                          r.exchange_every);
    else if (r.exchange_every > 1)
      text += fmt::format(
          " {} exchanges once in {} steps, and fewer were counted: its figures are none of a round. "
          "Give more --steps.",
          r.label, r.exchange_every);
  if (std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.ratio && !resolved(r); }))
    text += fmt::format(
        " Not resolved: the interval holds 1 or is over fewer than {} blocks, so this table does not tell which is "
        "faster.",
        kRunsForInterval);
  if (std::any_of(rows.begin(), rows.end(), [](const Row& r) { return r.bound_ms.has_value(); }))
    text += " Bound: the step that per-layer times, bytes and the link's rate allow.";
  return text;
}

std::optional<double> if_counted(double figure) { return std::isfinite(figure) ? std::optional(figure) : std::nullopt; }

}  // namespace

std::vector<Row> summarise(const std::vector<std::vector<Trial>>& trials, std::optional<int> warm_up,
                           std::optional<double> target_accuracy) {
  // Steps without warm-up, and in how many blocks a run is cut: the same for all sets, so that they pair.
  std::vector<std::vector<std::vector<LoggedStep>>> counted(trials.size());
  std::vector<bool> whole_rounds(trials.size(), true);
  std::size_t runs = 0, fewest = 1'000'000'000;
  for (std::size_t s = 0; s < trials.size(); ++s)
    for (const Trial& t : trials[s]) {
      runs = std::max(runs, trials[s].size());
      auto& steps = counted[s].emplace_back();
      if (!t.error.empty() || t.steps.empty()) continue;
      const std::size_t first = warm_up_of(t.steps.size(), warm_up);
      steps.assign(t.steps.begin() + static_cast<std::ptrdiff_t>(first), t.steps.end());
      // The last step waits for its own messages too; without the first ones there would be more messages than steps.
      if (first > 0 && steps.size() > 1) steps.pop_back();
      if (static_cast<std::int64_t>(steps.size()) < t.exchange_every) whole_rounds[s] = false;
      steps = rounds_of(steps, static_cast<std::size_t>(t.exchange_every));
      fewest = std::min(fewest, t.exchange_every > 1 ? steps.size() : steps.size() / kLeastSteps);
    }
  const std::size_t wanted = runs >= kRunsForInterval || runs == 0 ? 1 : (kBlocks + runs - 1) / runs;
  const std::size_t parts = std::max<std::size_t>(1, std::min(wanted, fewest));

  std::vector<Row> rows(trials.size());
  for (std::size_t s = 0; s < trials.size(); ++s) {
    Row& row = rows[s];
    row.whole_rounds = whole_rounds[s], row.ratio_of_rounds = whole_rounds[s] && whole_rounds[0];
    std::vector<double> blocks, ratios, accuracies, losses, perplexities, times;
    std::vector<LoggedStep> all;
    std::size_t evaluated = 0;  // runs
    for (std::size_t r = 0; r < trials[s].size(); ++r) {
      const Trial& trial = trials[s][r];
      if (!trial.error.empty()) {
        if (row.error.empty()) row.error = trial.error;
        continue;
      }
      ++row.runs;
      row.exchange_every = std::max(row.exchange_every, trial.exchange_every);
      const auto own = parts_of(counted[s][r], parts);
      blocks.insert(blocks.end(), own.begin(), own.end());
      all.insert(all.end(), counted[s][r].begin(), counted[s][r].end());
      if (s > 0 && r < counted[0].size() && !counted[0][r].empty()) {
        const auto first = parts_of(counted[0][r], parts);
        for (std::size_t p = 0; p < parts; ++p) ratios.push_back(own[p] / first[p]);
      }
      row.seeds.push_back({r, median_over(counted[s][r], ms_of).value});
      if (!trial.evaluations.empty()) {
        const Trial::Evaluation& last = trial.evaluations.back();
        if (last.accuracy) accuracies.push_back(*last.accuracy);
        if (last.loss) losses.push_back(*last.loss);
        if (last.perplexity) perplexities.push_back(*last.perplexity);
        row.seeds.back().accuracy = last.accuracy, row.seeds.back().loss = last.loss;
        row.seeds.back().perplexity = last.perplexity;
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
    // A step may send what the step before it left. The mean counts these bytes, and a median may not.
    row.bytes_sent = if_counted(mean_over(all, [](const LoggedStep& step) { return step.bytes_sent; }));
    row.bytes_dense = median_over(all, [](const LoggedStep& step) { return step.bytes_dense; }).value;
    if (std::ranges::all_of(all, [](const LoggedStep& step) { return std::isfinite(exposed_ms_of(step)); }))
      row.exposed_ms = median_over(all, exposed_ms_of).value;
    if (row.reached_target == row.runs) row.seconds_to_target = median(times).value;
    mean_and_deviation(accuracies, row.accuracy, row.accuracy_spread);
    if (losses.size() == evaluated) mean_and_deviation(losses, row.loss, row.loss_spread);
    if (perplexities.size() == evaluated) mean_and_deviation(perplexities, row.perplexity, row.perplexity_spread);
  }
  return rows;
}

std::string around(const TableHead& head, ResultTable table, const std::string& notes, bool markdown) {
  std::string errors;
  for (const Cell::Json& set : table.objects())
    if (set.contains("error"))
      errors += fmt::format("{} failed: {}\n", set["label"].get<std::string>(), set["error"].get<std::string>());
  return for_terminal(head.where + "\n" + head.what) + "\n" + table.text() + "\n" + for_terminal(errors + notes) +
         (markdown ? "\n\n    " : "\nAgain: ") + head.command + "\n";
}

std::string table_text(const TableHead& head, const std::vector<Row>& rows, bool markdown) {
  return around(head, table_of(head, rows, markdown), notes(rows), markdown);
}

std::string table_json(const TableHead& head, const std::vector<Row>& rows) {
  Cell::Json all = {{"where", head.where}, {"what", head.what}, {"command", head.command}, {"repeat", head.repeat}};
  if (head.target_accuracy) all["target_accuracy"] = *head.target_accuracy;
  all["sets"] = table_of(head, rows, false).objects();
  for (std::size_t s = 0; s < rows.size(); ++s)
    for (const Row::Seed& run : rows[s].seeds) {
      Cell::Json seed = {{"seed", head.seed + run.run}, {"step_ms", run.step_ms}};
      for (const auto& [name, value] :
           {std::pair{"accuracy", run.accuracy}, {"loss", run.loss}, {"perplexity", run.perplexity}})
        if (value) seed[name] = *value;
      all["sets"][s]["seeds"].push_back(std::move(seed));
    }
  return all.dump(-1, ' ', false, Cell::Json::error_handler_t::replace);
}

}  // namespace laconic
