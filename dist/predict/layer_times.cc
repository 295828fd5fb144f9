#include "dist/predict/layer_times.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"

namespace laconic::dist {

void to_json(nlohmann::json& j, const LayerTimes::Parameter& p) {
  j = {{"name", p.name},
       {"elements", p.elements},
       {"ready_ms", p.ready_ms},
       {"update_ms", p.update_ms},
       {"chunks", p.chunks}};
}
void from_json(const nlohmann::json& j, LayerTimes::Parameter& p) {
  j.at("name").get_to(p.name), j.at("ready_ms").get_to(p.ready_ms), j.at("update_ms").get_to(p.update_ms);
  p.elements = whole_in<std::int64_t>(j.at("elements")), p.chunks = whole_in<int>(j.at("chunks"));
}
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
  LayerTimes times;
  try {
    times = json_from(text, source).get<LayerTimes>();
  } catch (const nlohmann::json::exception& e) {
    throw DataError(
        concat(source, " has no times of layers as laconic bench layers --json prints them (", e.what(), ")"));
  }
  const auto require_figure = [&](const std::string& of, double value, double least, double most) {
    require<DataError>(value >= least && value <= most, source, " has ", value, " among the figures of ", of,
                       ", and they lie between ", least, " and ", most, ". Measure again.");
  };
  constexpr double kMostMs = 1e9, kMostElements = 1e12, kMostChunks = 1e6;
  require_figure("the step", times.step_ms, 0, kMostMs);
  for (const LayerTimes::Layer& l : times.layers) {
    for (const double ms : {l.forward_ms, l.backward_ms}) require_figure(l.name, ms, 0, kMostMs);
    for (const LayerTimes::Parameter& p : l.parameters) {
      for (const double ms : {p.ready_ms, p.update_ms}) require_figure(p.name, ms, 0, kMostMs);
      require_figure(p.name, static_cast<double>(p.elements), 0, kMostElements);
      require_figure(p.name, p.chunks, 0, kMostChunks);
    }
  }
  return times;
}

}  // namespace laconic::dist
