#include "layers/models/summary.h"

#include <map>
#include <set>

#include "layers/auxiliary_heads.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

struct Weights {
  std::int64_t own = 0;       // parameters that no layer before has
  std::int64_t matrices = 0;  // elements that a product reads, shared ones too
};

/// By the layers' names.
std::map<std::string, Weights> weights_of(const Module& model) {
  std::map<std::string, Weights> all;
  std::set<const Parameter*> seen;
  for (const auto& [name, parameter] : model.named_parameters()) {
    Weights& w = all[name.substr(0, name.rfind('.'))];
    if (seen.insert(parameter.get()).second) w.own += parameter->info.elements;
    if (parameter->info.shape.rank() > 1) w.matrices += parameter->info.elements;
  }
  return all;
}

}  // namespace

std::vector<LayerSummary> summarize(Module& model, const Shape& input) {
  std::map<std::string, std::string> kinds;
  for (const auto& [path, module] : model.named_modules()) kinds[path] = module->kind();
  const std::map<std::string, Weights> weights = weights_of(model);
  std::vector<LayerSummary> layers;
  const ForwardWatch watch = [&](const std::string& path, const Tensor& y) {
    const auto found = weights.find(path);
    const Weights w = found == weights.end() ? Weights{} : found->second;
    const std::int64_t width = y.dim(y.rank() == 4 ? 1 : -1);  // what one use of the weights gives
    const double multiply_adds =
        kinds[path] == "Embedding" ? 0 : static_cast<double>(w.matrices) * static_cast<double>(y.elements() / width);
    layers.push_back({path, kinds[path], y.shape(), w.own, 2 * multiply_adds});
  };
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  model.set_watch(&watch);
  const Tensor x = ghost_batch(input, 1).x;
  if (auto* heads = dynamic_cast<HasAuxiliaryHeads*>(&model))
    heads->outputs(x);
  else
    model(x);
  model.set_watch(nullptr);
  model.train(was_training);
  return layers;
}

}  // namespace laconic
