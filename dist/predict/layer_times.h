#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace laconic::dist {

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

/// The median of each figure over steps of one model; of an even number of steps the upper one. Then all are stretched
/// alike, so that together they are the median step: what now and then stops one layer or another, as a process that
/// takes the core, is in no layer's median.
LayerTimes medians(const std::vector<LayerTimes>& steps);

/// Those of the rank whose step takes longest.
LayerTimes slowest(const std::vector<LayerTimes>& ranks);

/// {"step_ms":...,"layers":[{"name":...,"forward_ms":...,"parameters":[...]}, ...]}, and back.
std::string to_json(const LayerTimes& times);
/// throws DataError, which names `source`, if the text is not what to_json() writes
LayerTimes layer_times_from(const std::string& json, const std::string& source);

}  // namespace laconic::dist
