// The part of a set-up that decides what travels how: by options, a file, a checkpoint, or what it measures.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/clock.h"
#include "core/base/parse.h"
#include "dist/trainer/layer_stopwatch.h"
#include "dist/trainer/setup.h"
#include "dist/world.h"

namespace laconic {
namespace {

constexpr std::size_t kWarmUpSteps = 2, kSteps = 5, kMostSteps = 50;
constexpr double kMostSeconds = 3, kEnoughSeconds = 0.15;
constexpr std::int64_t kUpdated = 1 << 20;  // elements

/// Seconds that an update takes for an element.
double update_cost(const OptimizerOptions& options, Device device, std::int64_t elements) {
  const auto p = std::make_shared<Parameter>(Shape{elements}, Role::linear);
  ParameterArena arena({p}, device);
  const auto optimizer = make_optimizer(arena, options);
  const double seconds = least_seconds(3, [&] {
    optimizer->update(*p, 1e-3);
    synchronize(device);
  });
  return seconds / static_cast<double>(elements);
}

}  // namespace

/// Rank 0 decides what travels how: as the checkpoint says that is resumed, or a file, or the options.
void Setup::agree_on_plan() {
  const auto& resumed = checkpoints->resumed();
  const bool goes_on = resumed && checkpoints->same_ranks(), chooses = o.plan_file == kAutomatic;
  if (is.asks_network && !facts.latency_seconds && worker.size > 1 && !goes_on) measure_network();
  dist::PlanOptions options = o.plan;
  method->shape(options, facts);
  if (worker.engine.size() == 1) options.chunk_bytes = 0;  // nothing travels, nothing is hidden
  if (resumed) {
    checkpoints->require_same_training(fingerprint, processor());
    require<DataError>(checkpoints->resumed()->position || checkpoints->same_ranks(), "resume: ", checkpoints->folder(),
                       " is of an earlier version, which resumes with as many ranks only. Start ", resumed->workers,
                       " workers.");
    timetable.go_on_from(*resumed);
    facts.steps_ahead = timetable.steps_ahead();
  }
  require<UsageError>(!chooses || is.plan_is_all, "`plan` ", kAutomatic, " chooses for `sync` allreduce, and this is ",
                      method->name(), ": leave one of the two out");
  std::string text = chooses && !goes_on ? chosen_plan() : "";
  if (worker.rank == 0 && text.empty()) text = plan_by(options);
  if (worker.rank == 0 && goes_on) {
    const std::string& folder = checkpoints->folder();
    const std::string stored = dist::Plan::from_json(resumed->plan, arena->parameters(), folder).json();
    if (stored != text && is.joins && !chooses)
      fmt::print(stderr,
                 "laconic: note: messages travel by the plan that is stored in {}, not by the one of these options\n",
                 folder);
    text = stored;
  }
  take_plan(meet(worker.engine, "agreement on the plan", text)[0]);
  if (worker.rank != 0 || !resumed || goes_on || !is.joins || chooses) return;
  const std::string then = dist::Plan::from_json(resumed->plan, arena->parameters(), o.resume).codec;
  if (then != plan.codec)
    fmt::print(stderr, "laconic: note: the codec is {} now, and was {} when {} was written\n", plan.codec, then,
               checkpoints->folder());
}

/// The plan by these options or of a file, as JSON.
std::string Setup::plan_by(const dist::PlanOptions& options) const {
  if (o.plan_file.empty() || o.plan_file == kAutomatic)
    return dist::make_plan(arena->parameters(), options, worker.size).json();
  const auto given = text_of_file(o.plan_file);
  require<DataError>(given.has_value(), "plan: cannot read ", o.plan_file, " (`plan`). Check the path.");
  return dist::Plan::from_json(*given, arena->parameters(), o.plan_file).json();
}

/// The plan of kAutomatic, as JSON, on rank 0; "" where nothing is to be chosen.
std::string Setup::chosen_plan() {
  const auto& resumed = checkpoints->resumed();
  dist::Allowed allowed = o.allowed;
  const std::string taken = resumed ? dist::Plan::from_json(resumed->plan, arena->parameters(), o.resume).sync : "";
  if (resumed && taken.empty()) allowed.methods.clear();  // the method stays, with what its workers keep
  if (worker.size > 1) return choose_plan(allowed, taken);
  const dist::MethodChoice* const choice = allowed.find(taken);
  if (choice == nullptr) return "";
  dist::Plan of_choice = dist::make_plan(arena->parameters(), choice->options(1));
  of_choice.sync = taken;
  return of_choice.json();
}

void Setup::take_plan(const std::string& text) {
  plan = dist::Plan::from_json(text, arena->parameters(), "the plan of rank 0");
  if (const dist::MethodChoice* choice = o.allowed.find(plan.sync); o.plan_file == kAutomatic && choice)
    method = choice->method, is = method->traits();
}

/// Times forward and backward of the first batch, on all workers at once, and leaves no trace of it.
dist::LayerTimes Setup::measure_layers(double threads_per_core) {
  start_data(0, 0);
  const Share share = workload.load();
  if (share.samples == 0) return {};
  const KeptBuffers before(workload.model());
  std::vector<dist::LayerTimes> steps;
  const auto began = Clock::now();
  {
    LayerStopwatch watch(workload.model(), *arena, threads_per_core);
    const auto enough = [&] {
      const double seconds = seconds_since(began);
      return seconds > kMostSeconds || (steps.size() >= kSteps && seconds > kEnoughSeconds) ||
             steps.size() == kMostSteps;
    };
    for (std::size_t i = 0; steps.empty() || !enough(); ++i) {
      watch.begin_step();
      arena->begin_step();
      const Tensor loss = workload.loss();
      loss.item();
      watch.end_forward();
      arena->backward(loss);
      arena->finish_gradients();
      watch.end_backward();
      if (i >= kWarmUpSteps) steps.push_back(watch.times());
      before.put_back();
      workload.pass_over();
    }
  }
  arena->begin_step();
  dist::LayerTimes times = dist::medians(steps);
  const double update =
      1e3 * threads_per_core * update_cost(o.optimizer, o.device, std::min(kUpdated, arena->elements()));
  double once = 0;
  for (dist::LayerTimes::Layer& layer : times.layers) {
    once += layer.forward_ms + layer.backward_ms;
    for (dist::LayerTimes::Parameter& p : layer.parameters) p.update_ms = update * static_cast<double>(p.elements);
  }
  // Gradients of micro-batches before the last one stay here.
  if (o.accumulate > 1)
    times.layers.push_back({"earlier micro-batches", static_cast<double>(o.accumulate - 1) * once, 0, {}});
  return times;
}

/// Sets what the method's plan goes by. All ranks find the same figures of the network.
void Setup::measure_network() {
  const dist::Busy busy(dist::Busy::With::work, "measures");
  const dist::CalibrationOptions wanted{.threads = o.threads};
  const dist::Calibration group = dist::slowest(dist::calibrated(worker, wanted, o.calibration).ranks);
  facts.latency_seconds = group.latency_seconds, facts.seconds_per_byte = 1 / group.bytes_per_second;
  const dist::ResidualSpeed residual = dist::measure_residual({.selector = "exact"});
  facts.residual_seconds = residual.gather + residual.select;
}

/// Adds what choosing from residuals takes on the slowest worker: as the plan may do it, or else as RedSync does it, so
/// that the log tells what RedSync would give. All workers measure at once.
void Setup::measure_choosing(const dist::Allowed& allowed, dist::WorkCosts& work) {
  constexpr std::int64_t kLeast = 1 << 14, kMost = 1 << 22;  // elements: more than caches hold
  const auto chooses = [](const dist::MethodChoice& m) { return m.method->traits().chooses; };
  const auto found = std::ranges::find_if(allowed.methods, chooses);
  const dist::MethodChoice choice =
      found != allowed.methods.end() ? *found : dist::Allowed::parse("sparse", "`allow`").methods[0];
  const dist::PlanOptions options = choice.options(worker.size);
  const dist::Plan of_choice = dist::make_plan(arena->parameters(), options, worker.size);
  const dist::Bucket* const largest = dist::largest_sparse(of_choice);
  if (largest == nullptr) return;
  const dist::ResidualSpeed mine =
      dist::measure_residual(largest->choice, options.sparse.density, std::clamp(largest->elements, kLeast, kMost));
  const std::string text = fmt::format("{} {} {}", mine.gather, mine.select, mine.scatter);
  for (const std::string& rank : meet(worker.engine, "times of residuals", text)) {
    std::istringstream words(rank);
    for (double dist::WorkCosts::*cost :
         {&dist::WorkCosts::per_gathered_element, &dist::WorkCosts::per_selected_element,
          &dist::WorkCosts::per_scattered_element}) {
      double seconds = 0;
      words >> seconds;
      work.*cost = std::max(work.*cost, seconds);
    }
  }
}

/// Returns the plan of rank 0, as JSON, there; elsewhere any text that is not empty.
std::string Setup::choose_plan(const dist::Allowed& allowed, const std::string& only) {
  const dist::Busy busy(dist::Busy::With::work, "measures and plans");
  dist::CalibrationOptions wanted{.threads = o.threads, .codecs = allowed.codecs()};
  if (!allowed.sixteen_bits) wanted.codecs.emplace_back("bf16");
  const dist::Calibrated ranks = dist::calibrated(worker, wanted, o.calibration);
  dist::Calibration group = dist::slowest(ranks.ranks);
  measure_choosing(allowed, group.work);
  const std::string mine = to_json(measure_layers(group.threads_per_core));
  const std::vector<std::string> all = meet(worker.engine, "times of layers", mine);
  if (worker.rank > 0) return "of rank 0";
  std::vector<dist::LayerTimes> times;
  for (const std::string& text : all) times.push_back(dist::layer_times_from(text, "the times of a rank"));
  dist::Planned planned = dist::make_best_plan({.parameters = arena->parameters(),
                                                .times = dist::slowest(times),
                                                .group = group,
                                                .overlap = o.overlap,
                                                .allowed = allowed,
                                                .codec_feedback = o.codec_feedback,
                                                .momentum = o.optimizer.momentum},
                                               only);
  receipt = std::move(planned.receipt);
  if (!ranks.from.empty()) receipt->group += " (from " + ranks.from + ")";
  return planned.plan.json();
}

}  // namespace laconic
