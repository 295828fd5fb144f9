#include "layers/sequential.h"

#include <algorithm>

#include "layers/stateless.h"

namespace laconic {

namespace {

bool pools(Module* layer) { return dynamic_cast<MaxPool2d*>(layer) || dynamic_cast<AvgPool2d*>(layer); }

/// Names those that have no name by their places.
Layers named(Layers layers) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].name.empty()) layers[i].name = std::to_string(i);
  return layers;
}

}  // namespace

Sequential::Sequential(const Layers& layers) {
  for (const auto& [name, layer] : named(layers)) {
    require<ShapeError>(layer != nullptr, "Sequential: layer ", name, " is null.");
    child(name, layer);
    FusesRelu* const before = stages_.empty() ? nullptr : dynamic_cast<FusesRelu*>(stages_.back().layer);
    if (before && !stages_.back().fused && dynamic_cast<ReLU*>(layer.get()))
      stages_.back().fused = before;
    else
      stages_.push_back({layer.get(), nullptr});
  }
  runs_ = {{0, stages_.size(), false}};
}

void Sequential::checkpoint_activations(bool on) {
  for (const Stage& s : stages_)
    if (s.layer->composite()) s.layer->checkpoint_activations(on);
  runs_.clear();
  on ? cut() : runs_.push_back({0, stages_.size(), false});
}

bool Sequential::is_unit() const {
  return std::none_of(stages_.begin(), stages_.end(),
                      [](const Stage& s) { return s.layer->composite() || pools(s.layer); });
}

bool Sequential::convolves() const {
  return std::any_of(stages_.begin(), stages_.end(), [](const Stage& s) { return dynamic_cast<Conv2d*>(s.layer); });
}

void Sequential::cut() {
  Run run{0, 0, false};
  bool convolution = false;
  const auto close = [&](std::size_t end) {
    run.end = end;
    run.segment = convolution && end > run.begin + 1;  // a layer alone keeps nothing but its input anyway
    if (end > run.begin) runs_.push_back(run);
    run.begin = end;
    convolution = false;
  };
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    Module* layer = stages_[i].layer;
    const auto* inner = dynamic_cast<Sequential*>(layer);
    if (inner && inner->is_unit()) {
      convolution |= inner->convolves();
    } else if (layer->composite()) {
      close(i);
      close(i + 1);
    } else if (pools(layer)) {
      close(i + 1);
    } else if (dynamic_cast<Conv2d*>(layer)) {
      convolution = true;
    }
  }
  close(stages_.size());
}

Tensor Sequential::through(const Run& run, const Tensor& x) const {
  Tensor h = x;
  for (std::size_t i = run.begin; i < run.end; ++i) {
    const Stage& s = stages_[i];
    h = s.fused ? s.fused->forward_relu(h) : (*s.layer)(h);
  }
  return h;
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor h = x;
  for (const Run& run : runs_)
    h = run.segment ? checkpoint(h, [this, run](const Tensor& in) { return through(run, in); }) : through(run, h);
  return h;
}

std::shared_ptr<Sequential> sequential(const Layers& layers) { return std::make_shared<Sequential>(layers); }

ModuleList::ModuleList(const Layers& parts) {
  for (const auto& [name, part] : named(parts)) parts_.push_back(child(name, part));
}

Tensor ModuleList::forward(const Tensor&) { throw Error("ModuleList: call its parts, and not the list."); }

Branches::Branches(const Layers& branches) {
  require<ShapeError>(!branches.empty(), "Add, Concat: no branches.");
  for (const auto& [name, branch] : named(branches)) branches_.push_back(child(name, branch));
}

}  // namespace laconic
