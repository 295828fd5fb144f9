#include "dist/planner/layer_times.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/json.h"

namespace laconic::dist {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerTimes::Parameter, name, elements, ready_ms, update_ms, chunks)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerTimes::Layer, name, forward_ms, backward_ms, parameters)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LayerTimes, step_ms, layers)

LayerTimes medians(const std::vector<LayerTimes>& steps) {
  const auto middle = [&](const auto& figure) {
    std::vector<double> values;
    for (const LayerTimes& step : steps) values.push_back(figure(step));
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  };
  LayerTimes result = steps.back();
  result.step_ms = middle([](const LayerTimes& step) { return step.step_ms; });
  for (std::size_t i = 0; i < result.layers.size(); ++i) {
    LayerTimes::Layer& l = result.layers[i];
    l.forward_ms = middle([i](const LayerTimes& step) { return step.layers[i].forward_ms; });
    l.backward_ms = middle([i](const LayerTimes& step) { return step.layers[i].backward_ms; });
    for (std::size_t j = 0; j < l.parameters.size(); ++j) {
      const auto of = [i, j](const LayerTimes& step) { return step.layers[i].parameters[j]; };
      l.parameters[j].ready_ms =
          std::min(l.backward_ms, middle([&](const LayerTimes& step) { return of(step).ready_ms; }));
      l.parameters[j].update_ms = middle([&](const LayerTimes& step) { return of(step).update_ms; });
    }
  }
  double sum = 0;
  const auto each = [&](const auto& figure) {
    for (LayerTimes::Layer& l : result.layers) {
      figure(l.forward_ms), figure(l.backward_ms);
      for (LayerTimes::Parameter& p : l.parameters) figure(p.update_ms);
    }
  };
  each([&](double ms) { sum += ms; });
  if (sum <= 0 || result.step_ms <= 0) return result;
  const double factor = result.step_ms / sum;
  each([&](double& ms) { ms *= factor; });
  for (LayerTimes::Layer& l : result.layers)
    for (LayerTimes::Parameter& p : l.parameters) p.ready_ms = std::min(l.backward_ms, factor * p.ready_ms);
  return result;
}

LayerTimes slowest(const std::vector<LayerTimes>& ranks) {
  return *std::ranges::max_element(ranks, {}, &LayerTimes::step_ms);
}

std::string to_json(const LayerTimes& times) { return nlohmann::json(times).dump(); }

LayerTimes layer_times_from(const std::string& text, const std::string& source) {
  try {
    return nlohmann::json::parse(text, shallow(source)).get<LayerTimes>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(
        concat(source, " has no times of layers as laconic bench layers --json prints them (", e.what(), ")"));
  }
}

}  // namespace laconic::dist
