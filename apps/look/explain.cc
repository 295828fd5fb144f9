// laconic explain: where the time of a training's steps went, against its plan, and what would shorten them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "apps/bench/layers.h"
#include "apps/common/result_table.h"
#include "apps/common/statistics.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "apps/look/log_file.h"
#include "core/base/error.h"
#include "core/base/parse.h"
#include "dist/predict/planner.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

constexpr double kFar = 0.15;  // from what the run took: then what a simulation says of changes is worth nothing

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

/// A change, and the step that its best plan gives.
struct WhatIf {
  std::string change;
  double step_ms;
  double samples;  ///< of a step, against those of the run
  bool taken;      ///< false: the plan does not do what it was allowed
};

/// Simulates the run, and changes of it, with what it has measured of itself. Each change has a plan of its own, which
/// the same search finds.
class WhatIfs {
 public:
  WhatIfs(const LogFile& log, const std::string& path)
      : ghost_(log.run.value("model", ""), log.plan.value("classes", 0)),
        plan_(dist::Plan::from_json(log.plan["plan"].dump(), ghost_.arena.parameters(), path)),
        facts_{.parameters = ghost_.arena.parameters(),
               .times = dist::layer_times_from(log.plan["layers"].dump(), path),
               .group = dist::calibration_from(log.plan["measured"].dump(), path),
               .overlap = dist::overlap_named(log.run.value("overlap", "forward")),
               .codec_feedback = log.plan.value("codec_feedback", false),
               .momentum = 0.9} {
    // Its plan does nothing that was not allowed.
    const std::string bounded = "inceptionn:";
    facts_.allowed.sixteen_bits = plan_.codec == "bf16";
    if (plan_.codec.starts_with(bounded)) facts_.allowed.bounded = plan_.codec.substr(bounded.size());
    if (plan_.sync.empty()) return;
    dist::MethodChoice::Settings settings;
    if (log.plan.contains("settings"))
      for (const auto& [name, text] : log.plan["settings"].items())
        settings.emplace_back(name, text.get<std::string>());
    facts_.allowed.methods.emplace_back(plan_.sync, settings);
  }

  double as_it_is_ms() const { return 1e3 * dist::simulate_plan(facts_, plan_); }

  std::vector<WhatIf> all() const {
    std::vector<WhatIf> found;
    const auto add = [&](const std::string& change, double samples, bool allows, const auto& make) {
      dist::PredictionFacts facts = facts_;
      make(facts);
      const dist::Planned best = dist::make_best_plan(facts);
      const bool same = best.plan.codec == plan_.codec && best.plan.sync == plan_.sync;
      found.push_back({change, best.receipt.step_ms, samples, !allows || !same});
    };
    if (!facts_.allowed.sixteen_bits && facts_.group.codecs.contains("bf16"))
      add("sums through 16 bits: --allow 16bit", 1, true, [](auto& facts) { facts.allowed.sixteen_bits = true; });
    const dist::MethodChoice sparse = dist::Allowed::parse("sparse:0.01", "--allow").methods[0];
    if (!facts_.allowed.find(sparse.method->name()) && facts_.group.work.per_gathered_element > 0)
      add("RedSync: --allow sparse:0.01", 1, true, [&](auto& facts) { facts.allowed.methods.push_back(sparse); });
    add("a link of twice the rate", 1, false, [](auto& facts) { facts.group.bytes_per_second *= 2; });
    add("half the latency", 1, false, [](auto& facts) { facts.group.latency_seconds /= 2; });
    add("twice the batch, which takes twice as long to compute", 2, false, [](auto& facts) {
      for (auto& layer : facts.times.layers) {
        layer.forward_ms *= 2, layer.backward_ms *= 2;
        for (auto& p : layer.parameters) p.ready_ms *= 2;
      }
    });
    return found;
  }

 private:
  const GhostModel ghost_;
  const dist::Plan plan_;
  dist::PredictionFacts facts_;
};

bool is_of_zoo(const std::string& model) {
  return std::ranges::any_of(models_of_zoo(), [&](const ModelInfo& m) { return m.name == model; });
}

/// step_ms : as the run took it
void print_what_ifs(const LogFile& log, const std::string& path, double step_ms) {
  if (!is_of_zoo(log.run.value("model", ""))) {
    fmt::print("\nWhat would shorten it cannot be simulated: the model is none of the zoo.\n");
    return;
  }
  const WhatIfs what_ifs(log, path);
  const double own_ms = what_ifs.as_it_is_ms();
  if (std::abs(own_ms - step_ms) > kFar * step_ms) {
    fmt::print("\nThe simulation of this run takes {:.4g} ms a step and the run took {:.4g}: no advice is given.\n",
               own_ms, step_ms);
    return;
  }
  ResultTable table(false,
                    "What would shorten it, each by its own best plan, simulated from what the run has measured:");
  table.add({{"change", "", "as it is, simulated"}, {"ms a step", "", own_ms, "{:.1f}"}, {"time a sample", "", ""}});
  for (const WhatIf& w : what_ifs.all())
    table.add({{"change", "", w.change},
               {"ms a step", "", w.step_ms, "{:.1f}"},
               {"time a sample", "",
                w.taken ? fmt::format("{:+.0f} %", 100 * (w.step_ms / w.samples / own_ms - 1)) : "not shorter"}});
  fmt::print("{}\nNothing of this says what would be learned: laconic compare does.\n", table.text());
}

}  // namespace

int explain(const std::vector<std::string>& arguments) {
  std::string path;
  CLI::App app("Where the time of a training's steps went, whether its plan foresaw it, and what would shorten them.",
               "laconic explain");
  app.add_option("log", path, "what --log has written; with --plan auto it tells most")->required()->type_name("LOG");
  if (const auto done = parse_tool(app, arguments)) return *done;
  const LogFile log = LogFile::read(path);
  require<DataError>(!log.steps.empty(), path, " has no steps: let the training run for some.");
  const std::size_t counted = without_warm_up(log.steps).size(), left_out = log.steps.size() - counted,
                    every = exchange_every(log.run);
  const std::vector<LoggedStep> steps = rounds_of(without_warm_up(log.steps), every);
  const Median step = median_over(steps, ms_of);
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
  ResultTable table(false, "");
  for (std::size_t i = 0; i < std::size(kStepParts); ++i)
    if (const double ms = median_over(steps, [i](const LoggedStep& s) { return s.parts[i]; }).value; ms > 0)
      table.add(
          {{"part", "", kStepParts[i].what}, {"ms", "", ms, "{:.2f}"}, {"of a step", "", ms / step.value, "{:.1f} %", 100}});
  fmt::print("\n{}", table.text());
  if (const std::string sentence = straggler_in(log.ranks); !sentence.empty()) fmt::print("\n{}\n", sentence);
  if (!planned) {
    fmt::print("\nThe log has no measured plan: with --plan auto it would tell what would shorten a step.\n");
    return 0;
  }
  if (const std::string waits = longest_waits(log.plan); !waits.empty())
    fmt::print("\nThe plan expects to wait longest for {}.\n", waits);
  print_what_ifs(log, path, step.value);
  return 0;
}

}  // namespace laconic
