#pragma once
#include <initializer_list>
#include <utility>

#include "layers/module.h"

namespace laconic {

/// Layers one after another, named "0", "1", … (as PyTorch's nn.Sequential) or as given:
///   Sequential({make<Linear>({.in = 784, .out = 10}), make<ReLU>()})
///   Sequential({{"fc1", make<Linear>({.in = 784, .out = 10})}, {"relu1", make<ReLU>()}})
/// A ReLU after a layer that can do it in its own pass (convolution, linear, batch norm) runs there; names do not
/// change.
/// With checkpoint_activations() its segments are the modules made of others, and between them what leads up to a
/// pooling layer, if there is a convolution in it.
class Sequential final : public Module {
 public:
  using Layer = std::shared_ptr<Module>;
  explicit Sequential(const std::vector<Layer>& layers);
  explicit Sequential(const std::vector<std::pair<std::string, Layer>>& layers);
  void checkpoint_activations(bool on = true) override;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  struct Run {
    std::size_t begin, end;
    bool segment;
  };
  void add(const std::string& name, const Layer& layer);
  Tensor through(const Run& run, const Tensor& x) const;
  void cut();
  bool is_unit() const;  // as convolution, norm, ReLU: nothing to cut at
  bool convolves() const;

  struct Stage {
    Module* layer;
    FusesRelu* fused;  // not null: with the ReLU that follows
  };
  std::vector<Stage> stages_;
  std::vector<Run> runs_;  // of stages; all of them in one but for checkpoint_activations()
};

std::shared_ptr<Sequential> sequential(const std::vector<Sequential::Layer>& layers);
std::shared_ptr<Sequential> sequential(const std::vector<std::pair<std::string, Sequential::Layer>>& layers);

}  // namespace laconic
