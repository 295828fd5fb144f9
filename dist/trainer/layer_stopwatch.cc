#include "dist/trainer/layer_stopwatch.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "core/stream.h"

namespace laconic {

LayerStopwatch::LayerStopwatch(Module& model, ParameterArena& arena, double threads_per_core)
    : model_(model),
      arena_(arena),
      device_(arena.values().device()),
      owner_(arena.parameters().size(), kUnknown),
      threads_per_core_(device_.kind == Device::Kind::cuda ? 1 : threads_per_core) {
  for (const auto& p : arena.parameters()) parameters_.push_back({p->info.name, p->info.elements});
  forward_watch_ = [this](const std::string& name, const Tensor&) { layer(name).forward_ms += lap(); };
  model_.set_watch(&forward_watch_);
  arena_.set_listener(this);
  set_backward_watch(this);
}

LayerStopwatch::~LayerStopwatch() {
  set_backward_watch(nullptr);
  arena_.set_listener(nullptr);
  model_.set_watch(nullptr);
}

void LayerStopwatch::begin_step() {
  for (auto& l : layers_) l.forward_ms = l.backward_ms = 0;
  for (auto& p : parameters_) p.chunks = 0;
  read_.clear();
  began_ms_ = mark_ms_ = now_ms();
}

dist::LayerTimes LayerStopwatch::times() const {
  dist::LayerTimes times{layers_, mark_ms_ - began_ms_};
  for (std::size_t p = parameters_.size(); p-- > 0;) {  // they stand in backward's order
    auto& own = times.layers[owner_[p] == kUnknown ? times.layers.size() - 1 : owner_[p]].parameters;
    own.push_back(parameters_[p]);
    own.back().chunks = std::max(1, own.back().chunks);
  }
  return times;
}

void LayerStopwatch::before(const char*, const std::string& layer) {
  // The tape's own work, and what a block of layers does (a sum of branches), counts for the layer before it.
  layers_[current_].backward_ms += lap();
  const auto found = place_.find(layer.empty() ? "loss" : layer);
  if (found != place_.end()) current_ = found->second;
}

void LayerStopwatch::gradient_ready(Parameter& p, Rows) {
  layers_[current_].backward_ms += lap();
  of(p).ready_ms = layers_[current_].backward_ms;
  ++of(p).chunks;
}

void LayerStopwatch::before_forward(Parameter& p, Rows) { read_.push_back(static_cast<std::size_t>(p.info.index)); }

double LayerStopwatch::now_ms() const {
  timespec t{};
  clock_gettime(threads_per_core_ > 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return threads_per_core_ * (1e3 * static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_nsec));
}

double LayerStopwatch::lap() {
  synchronize(device_);
  const double now = now_ms();
  return now - std::exchange(mark_ms_, now);
}

dist::LayerTimes::Layer& LayerStopwatch::layer(const std::string& name) {
  const auto [it, is_new] = place_.emplace(name, layers_.size());
  if (is_new) layers_.push_back({name, 0, 0, {}});
  current_ = it->second;
  for (const std::size_t p : std::exchange(read_, {}))
    if (owner_[p] == kUnknown) owner_[p] = current_;
  return layers_[current_];
}

}  // namespace laconic
