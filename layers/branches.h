#pragma once
#include "core/ops/join.h"
#include "layers/module.h"

namespace laconic {

/// y = x: the shortcut of a residual Add.
class Identity final : public Module {
 public:
  struct Options {};
  explicit Identity(Options = {}) {}

 protected:
  Tensor forward(const Tensor& x) override { return x; }
};

/// What several modules make of the same input, joined. Branches are named "0", "1", … or as given.
class Branches : public Module {
 protected:
  using Branch = std::shared_ptr<Module>;
  explicit Branches(const std::vector<Branch>& branches) : branches_(branches) {
    require<ShapeError>(!branches.empty(), "Add, Concat: no branches.");
    for (std::size_t i = 0; i < branches.size(); ++i) child(std::to_string(i), branches[i]);
  }
  explicit Branches(const std::vector<std::pair<std::string, Branch>>& branches) {
    require<ShapeError>(!branches.empty(), "Add, Concat: no branches.");
    for (const auto& [name, branch] : branches) branches_.push_back(child(name, branch));
  }
  std::vector<Branch> branches_;
};

/// y = sum of the branches' outputs, which have the same shape:   Add({body, make<Identity>()})
class Add final : public Branches {
 public:
  explicit Add(const std::vector<Branch>& branches) : Branches(branches) {}
  explicit Add(const std::vector<std::pair<std::string, Branch>>& branches) : Branches(branches) {}

 protected:
  Tensor forward(const Tensor& x) override {
    Tensor y = (*branches_[0])(x);
    for (std::size_t i = 1; i < branches_.size(); ++i) y = ops::add(y, (*branches_[i])(x));
    return y;
  }
};

/// y = the branches' channels after one another; N, H, W are the same.
class Concat final : public Branches {
 public:
  explicit Concat(const std::vector<Branch>& branches) : Branches(branches) {}
  explicit Concat(const std::vector<std::pair<std::string, Branch>>& branches) : Branches(branches) {}

 protected:
  Tensor forward(const Tensor& x) override {
    std::vector<Tensor> outputs;
    for (const Branch& b : branches_) outputs.push_back((*b)(x));
    return ops::concat_channels(outputs);
  }
};

}  // namespace laconic
