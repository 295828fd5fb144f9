#include "apps/layer_times.h"

#include <nlohmann/json.hpp>

#include "core/error.h"

namespace laconic {

std::string to_json(const LayerTimes& times) {
  auto layers = nlohmann::ordered_json::array();
  for (const auto& l : times.layers) {
    auto parameters = nlohmann::ordered_json::array();
    for (const auto& p : l.parameters)
      parameters.push_back({{"name", p.name},
                            {"elements", p.elements},
                            {"ready_ms", p.ready_ms},
                            {"update_ms", p.update_ms},
                            {"chunks", p.chunks}});
    layers.push_back(
        {{"name", l.name}, {"forward_ms", l.forward_ms}, {"backward_ms", l.backward_ms}, {"parameters", parameters}});
  }
  return nlohmann::ordered_json{{"step_ms", times.step_ms}, {"layers", layers}}.dump();
}

LayerTimes layer_times_from(const std::string& text) {
  LayerTimes times;
  try {
    const auto json = nlohmann::json::parse(text);
    times.step_ms = json.at("step_ms");
    for (const auto& l : json.at("layers")) {
      times.layers.push_back({l.at("name"), l.at("forward_ms"), l.at("backward_ms"), {}});
      for (const auto& p : l.at("parameters"))
        times.layers.back().parameters.push_back(
            {p.at("name"), p.at("elements"), p.at("ready_ms"), p.at("update_ms"), p.at("chunks")});
    }
  } catch (const nlohmann::json::exception& e) {
    throw DataError(concat("bench layers: its answer cannot be read (", e.what(), ")"));
  }
  return times;
}

}  // namespace laconic
