#include "layers/sequential.h"

#include "layers/activation.h"

namespace laconic {

Sequential::Sequential(const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) add(std::to_string(&layer - layers.data()), layer);
}

Sequential::Sequential(const std::vector<std::pair<std::string, Layer>>& layers) {
  for (const auto& [name, layer] : layers) add(name, layer);
}

void Sequential::add(const std::string& name, const Layer& layer) {
  require<ShapeError>(layer != nullptr, "Sequential: layer ", name, " is null.");
  child(name, layer);
  if (!stages_.empty() && !stages_.back().fused && dynamic_cast<ReLU*>(layer.get())) {
    if (auto* fuses = dynamic_cast<FusesRelu*>(stages_.back().layer)) {
      stages_.back().fused = fuses;
      return;
    }
  }
  stages_.push_back({layer.get(), nullptr});
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor h = x;
  for (const Stage& s : stages_) h = s.fused ? s.fused->forward_relu(h) : (*s.layer)(h);
  return h;
}

std::shared_ptr<Sequential> sequential(const std::vector<Sequential::Layer>& layers) {
  return std::make_shared<Sequential>(layers);
}
std::shared_ptr<Sequential> sequential(const std::vector<std::pair<std::string, Sequential::Layer>>& layers) {
  return std::make_shared<Sequential>(layers);
}

}  // namespace laconic
