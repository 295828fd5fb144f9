// laconic explain: where the time of a training's steps went, against its plan, and what would shorten them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "apps/log_file.h"
#include "apps/result_table.h"
#include "apps/simulate/model_facts.h"
#include "apps/statistics.h"
#include "apps/subcommand.h"
#include "apps/text.h"
#include "apps/tools.h"
#include "core/error.h"
#include "core/parse.h"
#include "dist/planner/calibration.h"
#include "dist/planner/simulation.h"
#include "dist/server/shard.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

/// Names up to three buckets for which the plan expects the longest waits.
std::string longest_waits(const nlohmann::json& plan) {
  std::vector<std::pair<double, std::string>> waits;
  for (const auto& bucket : plan.value("buckets", nlohmann::json::array()))
    if (const double ms = bucket.value("waits_ms", 0.0); ms >= 0.05)
      waits.emplace_back(ms, bucket.value("bucket", std::string()));
  std::ranges::sort(waits, std::greater<>());
  std::vector<std::string> words;
  for (std::size_t i = 0; i < std::min<std::size_t>(3, waits.size()); ++i)
    words.push_back(fmt::format("{} ({:.3g} ms)", waits[i].second, waits[i].first));
  return join(words, ", ");
}

/// A change, and the step that it would give.
struct WhatIf {
  std::string change;
  double step_ms;
  double samples;  ///< of a step, against those of the run
};

/// Simulates changes with what the run has measured of itself.
class WhatIfs {
 public:
  WhatIfs(const LogFile& log, const std::string& path)
      : plan_(log.plan),
        overlap_(dist::overlap_named(log.run.value("overlap", "forward"))),
        path_(path),
        group_(dist::calibration_from(log.plan["measured"].dump(), path)),
        times_(dist::layer_times_from(log.plan["layers"].dump(), path)),
        ghost_(log.run.value("model", ""), log.plan.value("classes", 0)) {}

  std::vector<WhatIf> all() {
    std::vector<WhatIf> found;
    const auto add = [&](const std::string& change, double seconds, double samples = 1) {
      found.push_back({change, 1e3 * seconds, samples});
    };
    add("as it is, simulated", step({}));
    add("sums through 16 bits: --codec bf16", step({.own_plan = false, .codec = "bf16"}));
    add("RedSync: --sync redsync --density 0.01 --no-mask", step({.own_plan = false, .sync = "redsync"}));
    add("a link of twice the rate", step({.rate = 2}));
    add("half the latency", step({.latency = 0.5}));
    add("twice the batch, which takes twice as long to compute", step({.batch = 2}), 2);
    return found;
  }

 private:
  struct Change {
    bool own_plan = true;  // the run's, else that of these
    std::string codec = "none", sync = "allreduce";
    double rate = 1, latency = 1, batch = 1;
  };

  double step(const Change& change) {
    dist::SimulatedTraining training{.parameters = dist::infos_of(ghost_.arena.parameters()), .times = times_};
    using Settings = std::vector<std::pair<std::string, std::string>>;
    const std::string sync = change.own_plan ? plan_.value("sync", "allreduce") : change.sync;
    Settings settings;
    if (change.own_plan && plan_.contains("settings"))
      for (const auto& [name, text] : plan_["settings"].items()) settings.emplace_back(name, text.get<std::string>());
    else if (!change.own_plan && sync == "redsync")
      settings = {{"density", "0.01"}, {"no-mask", ""}};
    training.method = dist::method(sync, settings);
    training.facts = {.workers = group_.workers, .momentum = 0.9, .overlap = overlap_};
    dist::PlanOptions options;
    dist::set_codec(options, change.codec);
    training.method->shape(options, training.facts);
    if (change.own_plan) {
      training.plan = dist::Plan::from_json(plan_.at("plan").dump(), ghost_.arena.parameters(), path_);
      training.facts.codec_feedback = plan_.value("codec_feedback", false);
    } else {
      training.plan = dist::make_plan(ghost_.arena.parameters(), options, group_.workers);
    }
    const std::string& codec = training.plan.codec;
    for (auto& layer : training.times.layers) {
      layer.forward_ms *= change.batch, layer.backward_ms *= change.batch;
      for (auto& p : layer.parameters) p.ready_ms *= change.batch;
    }
    if (codec != "none" && !group_.codecs.contains(codec)) group_.codecs[codec] = dist::measure_codec(codec);
    dist::VirtualNetwork network = group_.network(codec);
    if (training.plan.sparse()) {
      const double density = options.sparse.density;
      if (!residuals_.contains(density)) residuals_[density] = dist::measure_residual({.selector = "trimmed"}, density);
      const dist::ResidualSpeed& residual = residuals_[density];
      network.work.per_gathered_element = residual.gather, network.work.per_selected_element = residual.select;
      network.work.per_scattered_element = residual.scatter;
    }
    dist::LinkSpec& link = network.links.all;
    link.bits_per_second = static_cast<std::int64_t>(change.rate * static_cast<double>(link.bits_per_second));
    link.latency = dist::LinkDuration(std::llround(change.latency * static_cast<double>(link.latency.count())));
    network.mirrored = dist::is_alike(training, network);
    return dist::simulate_step(training, network).seconds;
  }

  const nlohmann::json& plan_;
  const dist::Overlap overlap_;
  const std::string path_;
  dist::Calibration group_;
  const dist::LayerTimes times_;
  const GhostModel ghost_;
  std::map<double, dist::ResidualSpeed> residuals_;  // by density
};

bool is_of_zoo(const std::string& model) {
  return std::ranges::any_of(models_of_zoo(), [&](const ModelInfo& m) { return m.name == model; });
}

void print_what_ifs(const LogFile& log, const std::string& path) {
  if (!is_of_zoo(log.run.value("model", ""))) {
    fmt::print("\nWhat would shorten it cannot be simulated: the model is none of the zoo.\n");
    return;
  }
  const std::vector<WhatIf> all = WhatIfs(log, path).all();
  ResultTable table(false);
  table.title("What would shorten it, simulated with what the run has measured of itself:");
  for (const WhatIf& w : all) {
    const double per_sample = w.step_ms / w.samples / all[0].step_ms - 1;
    table.add({{"change", "", w.change},
               {"ms a step", "", w.step_ms, "{:.1f}"},
               {"time a sample", "", &w == &all[0] ? "" : fmt::format("{:+.0f} %", 100 * per_sample)}});
  }
  fmt::print("{}\nNothing of this says what would be learned: laconic compare does.\n", table.text());
}

void print_straggler(const LogFile& log) {
  if (const std::string sentence = straggler_in(log.ranks); !sentence.empty()) fmt::print("\n{}\n", sentence);
}

}  // namespace

int explain(const std::vector<std::string>& arguments) {
  std::string path;
  CLI::App app("Where the time of a training's steps went, whether its plan foresaw it, and what would shorten them.",
               "laconic explain");
  app.add_option("log", path, "what --log has written; with --plan auto it tells most")->required()->type_name("LOG");
  if (const auto done = parse_tool(app, arguments)) return *done;
  LogFile log = LogFile::read(path);
  std::vector<nlohmann::json>& steps = log.steps;
  require<DataError>(!steps.empty(), path, " has no steps: let the training run for some.");
  // A training with --replan may have had other plans before.
  if (log.plan.is_object())
    std::erase_if(steps, [planned_after = log.plan.value("step", std::int64_t{0})](const nlohmann::json& step) {
      return step.value("step", planned_after + 1) <= planned_after;
    });
  require<DataError>(!steps.empty(), path, " has no steps after its last plan: let the training run for some.");
  const std::size_t all = steps.size();
  steps = without_warm_up(std::move(steps));
  const std::size_t left_out = all - steps.size(), counted = steps.size(), every = exchange_every(log.run);
  steps = in_rounds(steps, every);
  const Median step = median_of_steps(steps, "step_ms");
  require<DataError>(step.value > 0, path, " has no times of steps: name a file that --log has written.");

  fmt::print("{}, {} counted{}.\n", log.run.value("model", "a model"),
             plural(static_cast<std::int64_t>(counted), "step"),
             left_out > 0 ? fmt::format(", the first {} left out", left_out) : "");
  fmt::print("A step takes {:.4g} ms ({:.4g} … {:.4g}){}.", step.value, step.low, step.high,
             every > 1 ? fmt::format(", the mean of {} from exchange to exchange", every) : "");
  const bool planned =
      log.plan.is_object() && log.plan.contains("measured") && log.plan.contains("plan") && log.plan.contains("layers");
  if (planned) {
    const double predicted = log.plan.value("step_ms", 0.0);
    fmt::print(" The plan predicted {:.4g}: {:+.1f} %.", predicted, 100 * (predicted / step.value - 1));
  }
  ResultTable table(false);
  table.title("");
  for (const StepPart& part : kStepParts)
    if (const double ms = median_of_steps(steps, part.figure).value; ms > 0)
      table.add(
          {{"part", "", part.what}, {"ms", "", ms, "{:.2f}"}, {"of a step", "", ms / step.value, "{:.1f} %", 100}});
  fmt::print("\n{}", table.text());
  print_straggler(log);
  if (!planned) {
    fmt::print("\nThe log has no measured plan: with --plan auto it would tell what would shorten a step.\n");
    return 0;
  }
  if (const std::string waits = longest_waits(log.plan); !waits.empty())
    fmt::print("\nThe plan expects to wait longest for {}.\n", waits);
  print_what_ifs(log, path);
  return 0;
}

}  // namespace laconic
