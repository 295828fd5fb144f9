// A training measures itself and its ranks, and chooses what travels how.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "core/base/clock.h"
#include "core/base/parse.h"
#include "dist/trainer/checkpointing.h"
#include "dist/trainer/evaluation.h"
#include "dist/trainer/layer_stopwatch.h"
#include "dist/trainer/spans.h"
#include "dist/trainer/trainer.h"

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

/// Times forward and backward of the first batch, on all workers at once, and leaves no trace of it.
dist::LayerTimes Trainer::measure_layers(double threads_per_core) {
  start_data(0, 0);
  const Share share = workload_.load();
  if (share.samples == 0) return {};
  const KeptBuffers before(workload_.model());
  std::vector<dist::LayerTimes> steps;
  const auto began = Clock::now();
  {
    LayerStopwatch watch(workload_.model(), *arena_, threads_per_core);
    const auto enough = [&] {
      const double seconds = seconds_since(began);
      return seconds > kMostSeconds || (steps.size() >= kSteps && seconds > kEnoughSeconds) || steps.size() == kMostSteps;
    };
    for (std::size_t i = 0; steps.empty() || !enough(); ++i) {
      watch.begin_step();
      arena_->begin_step();
      const Tensor loss = workload_.loss();
      loss.item();
      watch.end_forward();
      arena_->backward(loss);
      arena_->finish_gradients();
      watch.end_backward();
      if (i >= kWarmUpSteps) steps.push_back(watch.times());
      before.put_back();
      workload_.pass_over();
    }
  }
  arena_->begin_step();
  dist::LayerTimes times = dist::medians(steps);
  const double update =
      1e3 * threads_per_core * update_cost(o_.optimizer, o_.device, std::min(kUpdated, arena_->elements()));
  double once = 0;
  for (dist::LayerTimes::Layer& layer : times.layers) {
    once += layer.forward_ms + layer.backward_ms;
    for (dist::LayerTimes::Parameter& p : layer.parameters) p.update_ms = update * static_cast<double>(p.elements);
  }
  // Gradients of micro-batches before the last one stay here.
  if (o_.accumulate > 1)
    times.layers.push_back({"earlier micro-batches", static_cast<double>(o_.accumulate - 1) * once, 0, {}});
  return times;
}

/// Sets what the method's plan goes by. All ranks find the same figures of the network.
void Trainer::measure_network() {
  const dist::Busy busy(dist::Busy::With::work, "measures");
  const dist::CalibrationOptions wanted{.threads = o_.threads};
  const dist::Calibration group = dist::slowest(dist::calibrated(worker_, wanted, o_.calibration).ranks);
  facts_.latency_seconds = group.latency_seconds, facts_.seconds_per_byte = 1 / group.bytes_per_second;
  const dist::ResidualSpeed residual = dist::measure_residual({.selector = "exact"});
  facts_.residual_seconds = residual.gather + residual.select;
}

/// Adds what choosing from residuals takes on the slowest worker: as the plan may do it, or else as RedSync does it, so
/// that the log tells what RedSync would give. All workers measure at once.
void Trainer::measure_choosing(const dist::Allowed& allowed, dist::WorkCosts& work) {
  constexpr std::int64_t kLeast = 1 << 14, kMost = 1 << 22;  // elements: more than caches hold
  const auto chooses = [](const dist::MethodChoice& m) { return m.method->traits().chooses; };
  const auto found = std::ranges::find_if(allowed.methods, chooses);
  const dist::MethodChoice method = found != allowed.methods.end() ? *found : dist::MethodChoice("redsync", {});
  const dist::PlanOptions options = method.options(worker_.size);
  const dist::Plan plan = dist::make_plan(arena_->parameters(), options, worker_.size);
  const dist::Bucket* const largest = dist::largest_sparse(plan);
  if (largest == nullptr) return;
  const dist::ResidualSpeed mine =
      dist::measure_residual(largest->choice, options.sparse.density, std::clamp(largest->elements, kLeast, kMost));
  const std::string text = fmt::format("{} {} {}", mine.gather, mine.select, mine.scatter);
  for (const std::string& rank : meet(worker_.engine, "times of residuals", text)) {
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
///   again : another plan has turned out wrong, so nothing of an earlier measurement counts
std::string Trainer::choose_plan(const dist::Allowed& allowed, const std::string& only, bool again) {
  const dist::Busy busy(dist::Busy::With::work, "measures and plans");
  dist::CalibrationOptions wanted{.threads = o_.threads, .codecs = allowed.codecs()};
  if (!allowed.sixteen_bits) wanted.codecs.emplace_back("bf16");
  const dist::Calibrated ranks = dist::calibrated(worker_, wanted, again ? dist::CalibrationSource{} : o_.calibration);
  dist::Calibration group = dist::slowest(ranks.ranks);
  measure_choosing(allowed, group.work);
  const std::vector<std::string> all = meet(worker_.engine, "times of layers", to_json(measure_layers(group.threads_per_core)));
  if (worker_.rank > 0) return "of rank 0";
  std::vector<dist::LayerTimes> times;
  for (const std::string& text : all) times.push_back(dist::layer_times_from(text, "the times of a rank"));
  dist::Planned planned = dist::make_best_plan({.parameters = arena_->parameters(),
                                                .times = dist::slowest(times),
                                                .group = group,
                                                .overlap = o_.overlap,
                                                .allowed = allowed,
                                                .codec_feedback = o_.codec_feedback,
                                                .momentum = o_.optimizer.momentum,
                                                .only = only});
  receipt_ = std::move(planned.receipt);
  if (!ranks.from.empty()) receipt_->group += " (from " + ranks.from + ")";
  return planned.plan.json();
}

/// Rank 0 decides. The strategy, the place in the data and the model's state between batches are then those of a run
/// that is resumed here with the new plan.
void Trainer::plan_anew_if_due() {
  if (!o_.replan || worker_.size == 1 || stopping()) return;
  flush();
  const StepFigures::Outside outside(figures_);
  std::string reason;
  if (watch_ && watch_->contradiction())
    reason = fmt::format("a step takes {:.3g} ms where {:.3g} were expected", watch_->contradiction()->step_ms,
                         watch_->contradiction()->expected_ms);
  reason = meet(worker_.engine, "whether to make another plan", reason)[0];
  if (reason.empty()) return;
  if (spans_) spans_->draw(false);
  if (worker_.rank == 0) memory_.between_steps();
  dist::RankState state(dist::Holders{worker_.rank, worker_.size});
  state.save("strategy/", *strategy_);
  state.save("workload/", workload_, dist::Join::own);
  arena_->set_listener(nullptr);
  counter_.reset(), dump_.reset(), gradients_.reset(), evaluation_.reset(), strategy_.reset();
  // Residuals and what each worker keeps of the momentum cannot be taken along: the method stays.
  dist::Allowed allowed = o_.allowed;
  if (plan_.sync.empty()) allowed.methods.clear();
  take_plan(meet(worker_.engine, "agreement on another plan", choose_plan(allowed, plan_.sync, true))[0]);
  make_strategy();
  arena_->set_listener(listener());
  dist::RankState known;
  known.save("strategy/", *strategy_);  // a plan may be the first one with a codec: then nothing is lost yet
  known.merge(state);
  strategy_->load(known.part("strategy/"));
  workload_.restore(state.part("workload/"));
  start_data(epoch_of(step_), batch_at(step_));
  figures_.restart_costs();
  if (spans_) spans_->draw(true);
  if (worker_.rank > 0) return;
  receipt_->step = step_, receipt_->reason = reason;
  watch_.emplace(std::nullopt, is_.period);  // measuring again would say what it has just said
  if (observer_) observer_->on_plan(*receipt_);
}

}  // namespace laconic
