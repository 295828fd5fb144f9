#pragma once
#include <map>
#include <string>
#include <vector>

#include "core/autograd.h"
#include "core/parameter.h"
#include "dist/predict/layer_times.h"
#include "layers/module.h"

namespace laconic {

/// Gives every moment of a step to the layer that is at work, as the hooks of forward, backward and arena tell. While
/// it lives it listens to the arena, and nobody else does. Both must outlive it.
/// Where threads share cores, a layer's time depends on who else happens to compute. Then the thread's CPU time counts,
/// as many times as there are threads for a core: the workers of a step begin together, when their gradients arrive.
///
///   watch.begin_step();  loss = model(x);  watch.end_forward();  arena.backward(loss);  watch.end_backward();
class LayerStopwatch final : public BackwardWatch, public ParameterListener {
 public:
  ///   threads_per_core : see dist::Calibration
  LayerStopwatch(Module& model, ParameterArena& arena, double threads_per_core = 1);
  ~LayerStopwatch() override;
  LayerStopwatch(const LayerStopwatch&) = delete;
  LayerStopwatch& operator=(const LayerStopwatch&) = delete;

  void begin_step();
  /// What came after the last layer is the loss.
  void end_forward() { layer("loss").forward_ms += lap(); }
  void end_backward() { layers_[current_].backward_ms += lap(); }
  /// All of it was updated since the last call of this object.
  void updated(const Parameter& p) { of(p).update_ms = lap(); }
  /// What the last step took, up to the last call.
  dist::LayerTimes times() const;

  void before(const char* operation, const std::string& layer) override;
  void after() override {}
  void gradient_ready(Parameter& p, Rows rows) override;
  void before_forward(Parameter& p, Rows rows) override;

 private:
  static constexpr std::size_t kUnknown = static_cast<std::size_t>(-1);
  dist::LayerTimes::Parameter& of(const Parameter& p) { return parameters_[static_cast<std::size_t>(p.info.index)]; }
  double now_ms() const;
  double lap();
  dist::LayerTimes::Layer& layer(const std::string& name);

  Module& model_;
  ParameterArena& arena_;
  const Device device_;
  ForwardWatch forward_watch_;
  std::vector<dist::LayerTimes::Layer> layers_;  // in the order of forward, their parameters apart
  std::map<std::string, std::size_t> place_;
  std::vector<dist::LayerTimes::Parameter> parameters_;  // by place in the arena
  std::vector<std::size_t> owner_;                       // likewise: the first layer that ended after it was read
  std::vector<std::size_t> read_;                        // parameters, since a layer ended
  std::size_t current_ = 0;
  const double threads_per_core_;
  double began_ms_ = 0, mark_ms_ = 0;
};

}  // namespace laconic
