#include "apps/simulate/model_facts.h"

#include <map>

#include "core/base/error.h"
#include "layers/models/zoo.h"
#include "layers/summary.h"

namespace laconic {

GhostModel::GhostModel(const std::string& name, int classes)
    : model(make_model(name, {.classes = classes})), arena(model->parameters(), kGhost) {}

dist::LayerTimes layer_times_at(double flop_per_second, const std::string& name, int classes, std::int64_t batch) {
  const GhostModel ghost(name, classes);
  const auto ms = [&](double flop) { return 1e3 * flop / flop_per_second; };
  dist::LayerTimes times;
  std::map<std::string, std::size_t> place;
  for (const LayerSummary& layer : summarize(*ghost.model, ghost_batch(model_info(name).input, batch).x)) {
    place[layer.name] = times.layers.size();
    times.layers.push_back({layer.name, ms(layer.flop), ms(2 * layer.flop), {}});
  }
  for (const auto& p : ghost.arena.parameters()) {
    const auto found = place.find(p->info.name.substr(0, p->info.name.rfind('.')));
    require<Error>(found != place.end(), "simulate: parameter ", p->info.name, " belongs to no layer of ", name, ".");
    dist::LayerTimes::Layer& layer = times.layers[found->second];
    layer.parameters.push_back(
        {p->info.name, p->info.elements, layer.backward_ms, ms(4 * static_cast<double>(p->info.elements)), 1});
  }
  for (const dist::LayerTimes::Layer& layer : times.layers) times.step_ms += layer.forward_ms + layer.backward_ms;
  return times;
}

}  // namespace laconic
