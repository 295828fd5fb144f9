#pragma once
#include <memory>
#include <string>

#include "core/parameter.h"
#include "dist/predict/layer_times.h"
#include "layers/module.h"

namespace laconic {

/// A model of the zoo without memory.   classes : 0 for the model's own
struct GhostModel {
  GhostModel(const std::string& name, int classes);
  const std::shared_ptr<Module> model;
  const ParameterArena arena;
};

/// Times each layer at this rate: two for each multiply-add, backward twice as many as forward, and four for each
/// parameter that is updated.   batch : samples, of a language model streams
dist::LayerTimes layer_times_at(double flop_per_second, const std::string& model, int classes, std::int64_t batch);

}  // namespace laconic
