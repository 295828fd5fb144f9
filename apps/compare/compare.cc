#include "apps/compare/compare.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/launch/child_process.h"
#include "apps/compare/bound.h"
#include "apps/compare/learning.h"
#include "apps/compare/table.h"
#include "apps/launch/launch.h"
#include "apps/common/machine.h"
#include "apps/common/statistics.h"
#include "apps/common/terminal.h"
#include "apps/main.h"
#include "apps/training/options.h"
#include "apps/look/report/report.h"
#include "apps/common/text.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"
#include "core/base/json.h"

namespace laconic {
namespace {

constexpr int kComputingSteps = 40;
constexpr const char* kInterrupted = "interrupted";

std::atomic<int> interrupted{0};  // the signal that came, or 0
extern "C" void on_compare_interrupt(int signal_number) { interrupted = signal_number; }

/// Tells by " FILE: BYTES CRC" what each file holds that a command takes options, weights or a plan from.
std::string files_of(const std::vector<std::string>& command) {
  std::string text;
  for (const char* option : {"--config", "--init", "--plan"})
    for (const std::string& file : values_of(command, option)) {
      std::error_code no_matter;
      if (std::filesystem::is_regular_file(file, no_matter)) text += concat(" ", file, ": ", sum_of_file(file).text());
    }
  return text;
}

/// ", accuracy 91.02 %"
std::string quality(const Trial& trial) {
  if (trial.evaluations.empty()) return "";
  const Trial::Evaluation& last = trial.evaluations.back();
  if (last.perplexity) return fmt::format(", perplexity {:.2f}", *last.perplexity);
  return last.accuracy ? fmt::format(", accuracy {:.2f} %", *last.accuracy) : "";
}

/// "overlap-none" of "overlap: none".
std::string file_name(const std::string& label) {
  std::string name;
  for (char c : label) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_';
    if (plain) name += c;
    if (!plain && !name.empty() && name.back() != '-') name += '-';
  }
  return name.substr(0, 40);
}

/// The machine, and how busy it was before anything ran here.
std::string where() {
  double load[1];
  const bool known = getloadavg(load, 1) == 1;
  return machine() + (known ? fmt::format("; load {:.1f} before", load[0]) : "");
}

class Comparison {
 public:
  Comparison(CompareOptions o, std::string app, std::string self)
      : o_(std::move(o)),
        app_(std::move(app)),
        self_(std::move(self)),
        folder_(o_.keep.empty() ? scratch_.emplace("compare", ", or give --keep DIR").path() : o_.keep),
        progress_(o_.quiet),
        trials_(o_.sets.size()) {
    std::error_code failed;
    std::filesystem::create_directories(folder_, failed);
    require<DataError>(!failed, "compare: the folder ", folder_.string(), " could not be made: ", failed.message(),
                       ". Check the path of --keep.");
    if (!o_.report.empty()) const AtomicFile probe(o_.report);  // whether it can be written is known before the runs
  }

  int run(const std::string& again) { return o_.learn > 0 ? run_learning(again) : run_whole(again); }

 private:
  /// One of the things that run in turn: a set, or the computing of a set whose schedule is to be replayed.
  struct Turn {
    OptionSet set;
    std::string name;  ///< of its files
    std::vector<Trial>* trials;
    RunKind run = RunKind::whole;
  };

  int run_whole(const std::string& again) {
    const std::string place = where();
    const std::vector<Turn> turns = all_turns();
    run_in_turns(turns, 0, turns.size() * static_cast<std::size_t>(o_.repeat));
    std::vector<Row> rows = summarise(trials_, o_.warm_up, o_.target_accuracy);
    for (std::size_t s = 0; s < rows.size(); ++s) {
      rows[s].label = o_.sets[s].label, rows[s].options = options_of(s);
      if (o_.bound && rows[s].runs > 0 && !interrupted) add_bound(rows[s], s);
    }
    const TableHead head{place, what(), again, o_.target_accuracy, o_.repeat, o_.seed};
    return end(rows, table_text(head, rows, o_.markdown), table_json(head, rows), reported(rows));
  }

  /// Learns without the network, then times on it.
  int run_learning(const std::string& again) {
    const std::string place = where();
    const std::size_t n = o_.sets.size(), runs = n * static_cast<std::size_t>(o_.repeat);
    std::vector<std::vector<Trial>> timed(n);
    for (const RunKind kind : {RunKind::learning, RunKind::timing}) {
      const bool learns = kind == RunKind::learning;
      std::vector<Turn> turns;
      for (std::size_t s = 0; s < n; ++s)
        turns.push_back({o_.sets[s], set_name(s) + (learns ? "-learning" : "-timing"),
                         learns ? &trials_[s] : &timed[s], kind});
      run_in_turns(turns, learns ? 0 : runs, 2 * runs);
    }
    Learning learning = put_together(trials_, timed);
    for (std::size_t s = 0; s < n; ++s)
      learning.rows[s].label = o_.sets[s].label, learning.rows[s].options = options_of(s);
    const TableHead head{place, what(), again, std::nullopt, o_.repeat, o_.seed};
    return end(learning.rows, learning_text(head, learning, o_.markdown), learning_json(head, learning),
               reported(learning, timed));
  }

  /// Runs each of them with each seed. `before` of `all` runs have been made.
  void run_in_turns(const std::vector<Turn>& turns, std::size_t before, std::size_t all) {
    const std::size_t n = turns.size();
    for (std::size_t r = 0; r < static_cast<std::size_t>(o_.repeat); ++r)
      for (std::size_t i = 0; i < n; ++i) {
        const Turn& turn = turns[(i + r) % n];  // another one begins each time
        if (interrupted && turn.run == RunKind::whole) return;
        const char* const kind = turn.run == RunKind::learning ? ", learning"
                                 : turn.run == RunKind::timing ? ", timed on the network"
                                                               : "";
        const std::uint64_t seed = o_.seed + r;
        turn.trials->push_back(run_one(
            turn, seed, fmt::format("[{}/{}] {}, seed {}{}", ++before, all, turn.set.label, seed, kind)));
      }
  }

  /// Prints the table, writes the page, and returns the exit code.
  template <class SomeRow>
  int end(const std::vector<SomeRow>& rows, const std::string& text, const std::string& json,
          const std::vector<ReportedRun>& page) {
    progress_.clear();
    if (!o_.json || o_.markdown) fmt::print("{}", text);
    if (!o_.report.empty() && !page.empty()) {
      write_report(page, o_.report);
      // Figures for other programs stand alone on standard output.
      if (!o_.quiet && !o_.json) fmt::print(o_.markdown ? stderr : stdout, "report: {}\n", o_.report);
    }
    if (o_.json) fmt::print("{}\n", json);
    if (interrupted) fmt::print(stderr, "laconic: error: compare was interrupted: the table has the runs until then\n");
    if (interrupted) return 128 + interrupted;
    return std::ranges::any_of(rows, [](const SomeRow& r) { return !r.error.empty(); }) ? 1 : 0;
  }

  /// The logs of a set's runs that have come to their end.
  std::vector<std::string> logs_of(const std::vector<Trial>& trials, const std::string& name) const {
    std::vector<std::string> logs;
    for (std::size_t r = 0; r < trials.size(); ++r)
      if (trials[r].error.empty()) logs.push_back(base_of(name, o_.seed + r) + ".jsonl");
    return logs;
  }

  /// A set on the page of --report, if one of its runs has come to its end.
  std::optional<ReportedRun> reported(std::size_t s, const std::string& name) const {
    std::vector<std::string> logs = logs_of(trials_[s], name);
    if (logs.empty()) return std::nullopt;
    return ReportedRun{.title = o_.sets[s].label, .log = logs[0], .seeds = {logs.begin() + 1, logs.end()}};
  }

  std::vector<ReportedRun> reported(const std::vector<Row>& rows) const {
    std::vector<ReportedRun> runs;
    for (std::size_t s = 0; s < rows.size(); ++s)
      if (auto run = reported(s, set_name(s))) {
        run->step_ms = rows[s].step_ms, run->ratio = rows[s].ratio;
        runs.push_back(*run);
      }
    return runs;
  }

  std::vector<ReportedRun> reported(const Learning& learning, const std::vector<std::vector<Trial>>& timed) const {
    std::vector<ReportedRun> runs;
    for (std::size_t s = 0; s < timed.size(); ++s) {
      const LearningRow& row = learning.rows[s];
      auto run = reported(s, set_name(s) + "-learning");
      if (!run) continue;
      run->timed = logs_of(timed[s], set_name(s) + "-timing");
      if (run->timed.empty()) continue;  // its own times are not the network's
      run->target = learning.target;
      run->further = {{"s to the target", row.seconds       ? with_interval(*row.seconds, "{:.4g}")
                                          : row.epochs == 0 ? "not reached"
                                                            : "not timed"}};
      if (row.speedup) run->further.emplace_back("times as fast", with_interval(*row.speedup));
      runs.push_back(*run);
    }
    return runs;
  }

  std::string set_name(std::size_t s) const { return fmt::format("{}-{}", s + 1, file_name(o_.sets[s].label)); }
  /// What the names of a run's files begin with.
  std::string base_of(const std::string& name, std::uint64_t seed) const {
    return folder_ / fmt::format("{}-seed{}", name, seed);
  }

  /// Returns the words that this set alone has.
  std::string options_of(std::size_t s) const { return join(joined(o_.sets[s].peer, o_.sets[s].words), " "); }

  std::vector<Turn> all_turns() {
    std::vector<Turn> turns;
    for (std::size_t s = 0; s < o_.sets.size(); ++s) turns.push_back({o_.sets[s], set_name(s), &trials_[s]});
    for (std::size_t s = 0; s < o_.sets.size(); ++s) {
      const std::vector<std::string> words = words_of(o_, o_.sets[s]);
      const bool may_have_link = o_.rate || GivenOptions(words).value("link");
      plans_.push_back(o_.bound && o_.sets[s].peer.empty() && may_have_link ? plan_of(s) : std::nullopt);
      if (!plans_[s] || !exchange_of(plans_[s]->described, o_.rate).link) continue;
      const auto [it, is_new] = computing_.try_emplace(plans_[s]->computing);
      if (!is_new) continue;
      const std::string steps =
          std::to_string(std::min(kComputingSteps, plans_[s]->described.value("total_steps", kComputingSteps)));
      turns.push_back({{"computing alone", joined(o_.sets[s].words, {"--compute-only", "--steps", steps})},
                       fmt::format("computing-{}", computing_.size()),
                       &it->second});
    }
    return turns;
  }

  Trial run_one(const Turn& turn, std::uint64_t seed, const std::string& name) {
    if (interrupted) {
      Trial none;
      none.error = kInterrupted;
      return none;
    }
    progress_.show(name);
    const std::string base = base_of(turn.name, seed), log = base + ".jsonl";
    const auto command = command_of(o_, turn.set, app_, self_, seed, log, turn.run);
    const std::string made_by = turn.run == RunKind::learning ? shell_line(command) + files_of(command) : "";
    if (turn.run == RunKind::learning && last_line_of(base + ".command") == made_by) {
      Trial kept = read_trial(log, base + ".out", base + ".err", 0);
      const auto made = kept.steps_made;  // a log that was cut does not have them all
      if (kept.error.empty() && (!made || *made == static_cast<std::int64_t>(kept.steps.size()))) {
        progress_.line(name + ": kept from before" + quality(kept));
        return kept;
      }
    }
    std::error_code ignored;
    for (const std::string& old : {log, base + ".command"}) std::filesystem::remove(old, ignored);
    const int code = run_to_files(command, base + ".out", base + ".err", [&] {
      if (const auto last = last_step(log))
        progress_.show(fmt::format("{}: step {}, {:.1f} ms", name, last->step, last->ms));
      return !interrupted;
    });
    Trial trial = read_trial(log, base + ".out", base + ".err", code);
    if (interrupted && trial.error.empty()) trial.error = kInterrupted;
    if (turn.run == RunKind::learning && trial.error.empty()) std::ofstream(base + ".command") << made_by << '\n';
    std::vector<double> ms;
    for (const auto& s : trial.steps) ms.push_back(s.step_ms);
    progress_.line(name + ": " +
                   (trial.error.empty()
                        ? fmt::format("{} steps, {:.1f} ms each{}", ms.size(), median(ms).value, quality(trial))
                        : "failed: " + trial.error));
    return trial;
  }

  /// Replays the schedule of a set with the times of its layers, as fast as it computes alone.
  void add_bound(Row& row, std::size_t s) {
    if (!plans_[s] || !computing_.contains(plans_[s]->computing)) return;
    const Row alone = summarise({computing_.at(plans_[s]->computing)}, o_.warm_up, std::nullopt)[0];
    if (alone.runs == 0) return;
    row.compute_ms = alone.step_ms.value;
    const auto trial = std::ranges::find(trials_[s], "", &Trial::error);
    const auto times = layers(*trial, s);
    if (!times) return;
    const ExchangeFacts exchange = exchange_of(plans_[s]->described, o_.rate);
    if (const auto replay = bound_of(*times, plans_[s]->text, exchange, *row.compute_ms / 1e3)) {
      row.bound_ms = 1e3 * replay->step_seconds;
      row.exchange_ms = 1e3 * replay->exchange_seconds;
    }
  }

  /// A set as the app describes it, without running it.
  struct SetPlan {
    std::string text;          ///< what travels how
    nlohmann::json described;  ///< the same, read
    std::string computing;     ///< by which options it computes
  };
  std::string plan_path(std::size_t s) const { return folder_ / fmt::format("{}-plan.json", s + 1); }
  std::optional<SetPlan> plan_of(std::size_t s) {
    auto command = command_of(o_, o_.sets[s], app_, self_, o_.seed, folder_ / "none.jsonl");
    command.push_back("--dry-run");
    if (run_to_files(command, plan_path(s), folder_ / "plan.err", [] { return !interrupted.load(); }) != 0) return {};
    const std::string text = last_line_of(plan_path(s));
    auto json = json_or_discarded(text);
    if (!json.is_object() || !json.contains("plan") || !json.contains("computing")) return {};
    const std::string computing = json["computing"].dump();
    return SetPlan{text, std::move(json), computing};
  }

  std::optional<dist::LayerTimes> layers(const Trial& trial, std::size_t s) {
    const nlohmann::json& described = plans_[s]->described;
    std::vector<std::string> command{self_, "bench", "layers", "--json", "--steps", "8"};
    for (const auto& [option, value] : {std::pair{"--model", trial.model},
                                        {"--batch", std::to_string(trial.batch)},
                                        {"--threads", std::to_string(trial.threads)},
                                        {"--device", described.value("device", "cpu")},
                                        {"--precision", described.value("precision", "fp32")}})
      command.insert(command.end(), {option, value});
    if (trial.classes > 0) command.insert(command.end(), {"--classes", std::to_string(trial.classes)});
    const auto [it, is_new] = layers_.emplace(join(command, " ") + plans_[s]->text, std::nullopt);
    if (!is_new) return it->second;
    progress_.show("layers of " + trial.model + ", for the bound");
    command.insert(command.end(), {"--plan", plan_path(s)});
    const std::string out = folder_ / "layers.json";
    if (run_to_files(command, out, folder_ / "layers.err", [] { return !interrupted.load(); }) == 0)
      it->second = dist::layer_times_from(last_line_of(out), "bench layers: its answer");
    return it->second;
  }

  std::string what() const {
    for (const auto& runs : trials_)
      for (const Trial& t : runs)
        if (t.error.empty())
          return fmt::format("{}: {}, {}{}, {} each, batch {} per worker, {}", o_.app, t.model,
                             plural(t.workers, "worker"), o_.launch > 0 ? " as processes" : "",
                             plural(t.threads, "thread"), t.batch, plural(o_.repeat, "seed"));
    return o_.app;
  }

  CompareOptions o_;
  std::string app_, self_;
  std::optional<ScratchFolder> scratch_;  // without --keep
  std::filesystem::path folder_;          // of the runs' files
  StatusLine progress_;
  std::vector<std::vector<Trial>> trials_;                   // [set][run]
  std::vector<std::optional<SetPlan>> plans_;                // by set
  std::map<std::string, std::vector<Trial>> computing_;      // by its options
  std::map<std::string, std::optional<dist::LayerTimes>> layers_;  // by how they are measured
};

}  // namespace

int compare(const std::vector<std::string>& arguments) {
  CompareOptions o = parse_compare(arguments);
  if (o.help) {
    fmt::print("{}", compare_help());
    return 0;
  }
  const std::string app = find_app(o.app, "compare"), self = std::filesystem::read_symlink("/proc/self/exe").string();
  struct sigaction action = {};
  action.sa_handler = on_compare_interrupt;
  for (const int s : {SIGINT, SIGTERM}) sigaction(s, &action, nullptr);
  if (!ignores_hangup()) sigaction(SIGHUP, &action, nullptr);
  ask_app(o, app, [] { return !interrupted.load(); });
  if (interrupted) return 128 + interrupted;
  if (o.dry_run) {
    for (int r = 0; r < o.repeat; ++r)
      for (const auto& set : o.sets)
        for (const RunKind run :
             o.learn > 0 ? std::vector{RunKind::learning, RunKind::timing} : std::vector{RunKind::whole})
          fmt::print("{}\n",
                     shell_line(command_of(o, set, app, self, o.seed + static_cast<std::uint64_t>(r), "LOG", run)));
    return 0;
  }
  return Comparison(o, app, self).run(shell_word(program_invocation_name) + " compare " + shell_line(arguments));
}

}  // namespace laconic
