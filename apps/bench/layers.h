#pragma once
#include <cstdint>
#include <string>

#include "apps/common/result_table.h"
#include "dist/predict/layer_times.h"
#include "layers/models/zoo.h"
#include "optim/optimizer.h"

namespace laconic {

/// What benchmarks train, on the same batch of noise always: a GPT with AdamW, others with SGD; images with momentum.
struct SyntheticTraining {
  std::shared_ptr<Module> model;
  ParameterArena arena;
  std::unique_ptr<Optimizer> optimizer;
  Tensor x;  ///< [batch, C, H, W], normal; for a language model words [T, batch], even over the vocabulary
  Tensor y;  ///< [batch], even over the model's classes; [T batch]

  SyntheticTraining(const ModelInfo& info, std::int64_t batch, Device device);
};

/// Trains a model of the zoo as SyntheticTraining does, and takes the median of `steps` steps for each part. Sets the
/// kernel threads.
///   plan      JSON of a plan (--dry-run --json of an app) by whose chunks large weights are computed; empty: whole
///   classes   the model's outputs, of a language model its vocabulary; 0: the model's own
///   threads_per_core   see LayerStopwatch
///   device    of a CUDA device each part is waited for: they add up to more than a step in which nothing is
/// throws UsageError for an unknown model, DataError for a plan of another one
dist::LayerTimes measure_layers(const std::string& model, std::int64_t batch, int threads, int steps,
                                const std::string& plan = "", int classes = 0, Device device = kCpu,
                                double threads_per_core = 1);

/// Adds a row for each layer, and their sum.
void add_layers(ResultTable& table, const dist::LayerTimes& times);

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
