#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "core/device.h"

namespace laconic {

/// Where the time of a training step goes, layer by layer, in the order of forward. What belongs to no layer (the loss)
/// stands last, under its operation's name.
struct LayerTimes {
  struct Parameter {
    std::string name;
    std::int64_t elements = 0;
    double ready_ms = 0;  ///< into its layer's backward, when the last of its gradient was handed over
    double update_ms = 0;
    int chunks = 1;  ///< of rows, in which its gradient was handed over
  };
  struct Layer {
    std::string name;
    double forward_ms = 0, backward_ms = 0;
    std::vector<Parameter> parameters;
  };
  std::vector<Layer> layers;
  double step_ms = 0;  ///< forward, backward and updates
};

/// Trains a model of the zoo on one batch of noise, with SGD and momentum (a language model without), and takes the
/// median of `steps` steps for each part. Sets the kernel threads.
///   plan      JSON of a plan (--dry-run --json of an app) by whose chunks large weights are computed; empty: whole
///   classes   the model's outputs, of a language model its vocabulary; 0: the model's own
///   device    of a CUDA device each part is waited for: they add up to more than a step in which nothing is
/// throws UsageError for an unknown model, DataError for a plan of another one
LayerTimes measure_layers(const std::string& model, std::int64_t batch, int threads, int steps,
                          const std::string& plan = "", int classes = 0, Device device = kCpu);

/// {"model":...,"step_ms":...,"layers":[{"name":...,"forward_ms":...,"parameters":[...]}, ...]}, and back.
std::string to_json(const LayerTimes& times);
/// throws DataError if the text is not what to_json() writes
LayerTimes layer_times_from(const std::string& json);

}  // namespace laconic
