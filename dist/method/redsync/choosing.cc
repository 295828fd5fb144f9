#include "dist/method/redsync/choosing.h"

namespace laconic::dist {

Steps Layer::choose() {
  Steps choosing = residual.choose(context.step);
  co_await choosing;
  Steps packing = carry.pack(residual.chosen());
  co_await packing;
}

Choosing::Choosing(const WorkerSide& side, double& seconds, std::function<void(Layer&)> hand_over)
    : side_(side), device_(side.arena.gradients().device()), seconds_(seconds), hand_over_(std::move(hand_over)) {}

bool Choosing::may_wait(const Layer& layer, std::int64_t step) const {
  return side_.facts.overlap == Overlap::forward && step >= layer.hurried_until && !layer.by_nccl;
}

void Choosing::waited(Layer& layer, double seconds) {
  constexpr double kWorthNothing = 3e-4;
  constexpr std::int64_t kHurriedSteps = 50;
  if (seconds > kWorthNothing) layer.hurried_until = layer.context.step + kHurriedSteps;
}

bool Choosing::late(const Layer& layer) const {
  return device_.kind == Device::Kind::cuda && side_.engine.size() > 1 && !side_.watch && !layer.by_nccl;
}

void Choosing::before(Layer& layer) const {
  if (side_.watch) side_.watch(layer.parameter, layer.residual.residual().slice());
  layer.account.before(layer.context.step, layer.residual.residual());
}

void Choosing::after(Layer& layer) {
  layer.account.after(layer.residual.residual(), layer.carry.chosen());
  layer.account.sent(layer.carry.sent_bytes());
}

void Choosing::choose(Layer& layer) {
  layer.phase = Layer::Phase::complete;
  if (late(layer)) return hand_over_(layer);
  before(layer);
  Asked next{.layer = &layer, .steps = layer.choose()};
  {
    const Doing select(layer.parameter.info.name, "select", seconds_);
    next.waits = next.steps.go_on();
    if (next.waits) next.has_come = Event::now(device_);
  }
  read_last();  // the one before
  asked_ = std::move(next);
  if (!layer.by_nccl) read_last();
}

void Choosing::read_last() {
  if (!asked_) return;
  Asked asked = std::move(*asked_);
  asked_.reset();
  Layer& layer = *asked.layer;
  if (asked.waits) {
    const Doing select(layer.parameter.info.name, "select", seconds_);
    asked.has_come.synchronize();
    throw_findings(device_);
    asked.steps.run(device_);
  }
  after(layer);
  hand_over_(layer);
}

Task<> Choosing::choose_late(Layer& layer, Communicator& comm) const {
  before(layer);
  Steps choosing = layer.choose();
  const auto go_on = [&] {
    const Doing select(layer.parameter.info.name, "select", layer.late_seconds);
    return choosing.go_on();
  };
  while (go_on()) co_await comm.device_comes(device_);
  after(layer);
}

}  // namespace laconic::dist
