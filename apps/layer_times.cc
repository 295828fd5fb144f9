#include "apps/layer_times.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace laconic {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerTimes::Parameter, name, elements, ready_ms, update_ms, chunks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerTimes::Layer, name, forward_ms, backward_ms, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerTimes, step_ms, layers)

std::string to_json(const LayerTimes& times) { return nlohmann::json(times).dump(); }

LayerTimes layer_times_from(const std::string& text, const std::string& source) {
  try {
    return nlohmann::json::parse(text).get<LayerTimes>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(
        concat(source, " has no times of layers as laconic bench layers --json prints them (", e.what(), ")"));
  }
}

}  // namespace laconic
