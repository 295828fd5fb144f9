#include "layers/summary.h"

#include <algorithm>
#include <iomanip>
#include <map>
#include <set>
#include <sstream>

#include "layers/loss.h"

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
    const auto dot = name.rfind('.');
    Weights& w = all[dot == std::string::npos ? "" : name.substr(0, dot)];
    if (seen.insert(parameter.get()).second) w.own += parameter->info.elements;
    if (parameter->info.shape.rank() > 1) w.matrices += parameter->info.elements;
  }
  return all;
}

}  // namespace

std::vector<LayerSummary> summarize(Module& model, const Tensor& x) {
  std::map<std::string, std::string> kinds;
  for (const auto& [path, module] : model.named_modules()) kinds[path] = module->kind();
  const std::map<std::string, Weights> weights = weights_of(model);
  std::vector<LayerSummary> layers;
  const ForwardWatch watch = [&](const std::string& path, const Tensor& y) {
    const auto found = weights.find(path);
    const Weights w = found == weights.end() ? Weights{} : found->second;
    const std::int64_t width = y.dim(y.rank() == 4 ? 1 : -1);  // the numbers that one use of the weights gives
    const double multiply_adds = kinds[path].starts_with("Embedding")
                                     ? 0
                                     : static_cast<double>(w.matrices) * static_cast<double>(y.elements() / width);
    layers.push_back({path, kinds[path], y.shape(), w.own, 2 * multiply_adds});
  };
  const NoGrad no_grad;
  const EvalMode eval(model);
  const Watched watched(model, watch);
  const Tensor ghost = Tensor::empty(x.shape(), x.dtype(), kGhost);
  if (auto* heads = dynamic_cast<HasAuxiliaryHeads*>(&model))
    heads->outputs(ghost);
  else
    model(ghost);
  return layers;
}

std::string summary(Module& model, const Tensor& x) {
  std::vector<std::array<std::string, 4>> rows{{"layer", "kind", "output", "parameters"}};
  for (const LayerSummary& l : summarize(model, x))
    rows.push_back({l.name, l.kind, concat(l.output), l.parameters ? std::to_string(l.parameters) : ""});
  std::int64_t frozen = 0;
  std::set<const Parameter*> seen;
  for (const auto& p : model.parameters())
    if (p->frozen() && seen.insert(p.get()).second) frozen += p->info.elements;
  rows.push_back({"", "", "", std::to_string(model.parameter_count())});

  std::array<std::size_t, 4> width{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  std::ostringstream text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < 3; ++i) text << std::left << std::setw(static_cast<int>(width[i]) + 2) << row[i];
    text << std::right << std::setw(static_cast<int>(width[3])) << row[3] << '\n';
  }
  if (frozen > 0) text << frozen << " of them are frozen.\n";
  return text.str();
}

std::size_t peak_activation_bytes(const std::function<Tensor()>& loss) {
  const std::size_t before = memory_stats(kGhost).in_use_bytes;
  reset_peak(kGhost);
  loss().backward();
  return memory_stats(kGhost).peak_bytes - before;
}

}  // namespace laconic
