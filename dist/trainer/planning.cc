// A training measures itself and its ranks, and chooses what travels how.
#include <algorithm>

#include "dist/trainer/checkpointing.h"
#include "dist/trainer/evaluation.h"
#include "dist/trainer/layer_stopwatch.h"
#include "dist/trainer/trainer.h"

namespace laconic {
namespace {

constexpr int kWarmUpSteps = 2, kSteps = 5;
constexpr double kSecondsForSteps = 3;
constexpr std::int64_t kUpdated = 1 << 20;  // elements

/// Seconds that an update takes for an element.
double update_cost(const OptimizerOptions& options, Device device, std::int64_t elements) {
  const auto p = std::make_shared<Parameter>(Shape{elements}, Role::linear);
  ParameterArena arena({p}, device);
  const auto optimizer = make_optimizer(arena, options);
  double least = 1;
  for (int i = 0; i < 3; ++i) {
    const auto begin = Clock::now();
    optimizer->update(*p, 1e-3);
    synchronize(device);
    least = std::min(least, seconds_since(begin));
  }
  return least / static_cast<double>(elements);
}

}  // namespace

/// Times forward and backward of the first batch, on all workers at once, and leaves no trace of it.
dist::LayerTimes Trainer::measure_layers() {
  workload_.start(0, 0);
  const Share share = workload_.load();
  if (share.samples == 0) return {};
  const KeptBuffers before(workload_.model());
  std::vector<dist::LayerTimes> steps;
  const auto began = Clock::now();
  {
    LayerStopwatch watch(workload_.model(), *arena_);
    for (int i = 0; i < kWarmUpSteps + kSteps && (i <= kWarmUpSteps || seconds_since(began) < kSecondsForSteps); ++i) {
      const auto start = Clock::now();
      watch.begin_step();
      arena_->begin_step();
      const Tensor loss = workload_.loss();
      loss.item();
      watch.end_forward();
      arena_->backward(loss);
      arena_->finish_gradients();
      watch.end_backward();
      if (i >= kWarmUpSteps) steps.push_back(watch.times(1e3 * seconds_since(start)));
      before.put_back();
      workload_.pass_over();
    }
  }
  arena_->begin_step();
  dist::LayerTimes times = dist::medians(steps);
  const double update = 1e3 * update_cost(o_.optimizer, o_.device, std::min(kUpdated, arena_->elements()));
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
  const dist::CalibrationOptions wanted{.threads = o_.threads};
  const dist::Calibration group = dist::slowest(dist::calibrated(worker_, wanted, o_.calibration).ranks);
  facts_.latency_seconds = group.latency_seconds, facts_.seconds_per_byte = 1 / group.bytes_per_second;
  const dist::ResidualSpeed residual = dist::measure_residual({.selector = "exact"});
  facts_.residual_seconds = residual.gather + residual.select;
}

/// Returns the plan of rank 0, as JSON, there; elsewhere any text that is not empty.
std::string Trainer::choose_plan() {
  const dist::CalibrationOptions wanted{.threads = o_.threads, .codecs = o_.allowed.codecs()};
  const dist::Calibrated group = dist::calibrated(worker_, wanted, o_.calibration);
  const std::vector<std::string> all = meet(worker_.engine, "times of layers", to_json(measure_layers()));
  if (worker_.rank > 0) return "of rank 0";
  std::vector<dist::LayerTimes> times;
  for (const std::string& text : all) times.push_back(dist::layer_times_from(text, "the times of a rank"));
  dist::Planned planned = dist::make_best_plan({.parameters = arena_->parameters(),
                                                .times = dist::slowest(times),
                                                .group = dist::slowest(group.ranks),
                                                .overlap = o_.overlap,
                                                .allowed = o_.allowed,
                                                .codec_feedback = o_.codec_feedback});
  receipt_ = std::move(planned.receipt);
  if (!group.from.empty()) receipt_->group += " (from " + group.from + ")";
  return planned.plan.json();
}

}  // namespace laconic
