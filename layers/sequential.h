#pragma once
#include <utility>

#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "layers/weighted.h"

namespace laconic {

/// A part of a module that is made of others. It is named by its place, "0", "1", … (as in PyTorch's nn.Sequential), or
/// as given.
struct Layer {
  template <class M>
  Layer(std::shared_ptr<M> its) : module(std::move(its)) {}
  template <class M>
  Layer(std::string its_name, std::shared_ptr<M> its) : name(std::move(its_name)), module(std::move(its)) {}
  std::string name;  ///< empty: by its place
  std::shared_ptr<Module> module;
};
using Layers = std::vector<Layer>;

/// Layers one after another:
///   Sequential({make<Linear>({.in = 784, .out = 10}), make<ReLU>()})
///   Sequential({{"fc1", make<Linear>({.in = 784, .out = 10})}, {"relu1", make<ReLU>()}})
/// A ReLU after a layer that can do it in its own pass (convolution, linear, batch norm) runs there; names do not
/// change.
/// With checkpoint_activations() its segments are the modules made of others, and between them what leads up to a
/// pooling layer, if there is a convolution in it.
class Sequential final : public Module {
 public:
  explicit Sequential(const Layers& layers);
  void checkpoint_activations(bool on = true) override;

 private:
  struct Run {
    std::size_t begin, end;
    bool segment;
  };
  Tensor forward(const Tensor& x) override;
  Tensor through(const Run& run, const Tensor& x) const;
  void cut();
  bool is_unit() const;  // true: there is nothing to cut at, as in convolution, norm, ReLU
  bool convolves() const;

  struct Stage {
    Module* layer;
    FusesRelu* fused;  // the layer with the ReLU that follows, or null
  };
  std::vector<Stage> stages_;
  std::vector<Run> runs_;  // runs of stages; a single one but for checkpoint_activations()
};

std::shared_ptr<Sequential> sequential(const Layers& layers);

/// Modules in a row that their owner calls as it likes: parts[0](x), for (auto& part : parts). It is no function
/// itself.
class ModuleList final : public Module {
 public:
  explicit ModuleList(const Layers& parts);
  std::size_t size() const { return parts_.size(); }
  Module& operator[](std::size_t i) const { return *parts_.at(i); }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }

 private:
  Tensor forward(const Tensor& x) override;
  std::vector<std::shared_ptr<Module>> parts_;
};

/// What several modules make of the same input, joined.
class Branches : public Module {
 public:
  explicit Branches(const Layers& branches);

 protected:
  std::vector<std::shared_ptr<Module>> branches_;
};

/// y = sum of the branches' outputs, which have the same shape:   Add({body, make<Identity>()})
class Add final : public Branches {
  using Branches::Branches;
  Tensor forward(const Tensor& x) override {
    Tensor y = (*branches_[0])(x);
    for (std::size_t i = 1; i < branches_.size(); ++i) y = ops::add(y, (*branches_[i])(x));
    return y;
  }
};

/// y = the branches' channels after one another; N, H, W are the same.
class Concat final : public Branches {
  using Branches::Branches;
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> outputs;
    for (const auto& b : branches_) outputs.push_back((*b)(x));
    return ops::concat_channels(outputs);
  }
};

}  // namespace laconic
