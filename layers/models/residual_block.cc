#include "layers/models/residual_block.h"

#include <utility>

namespace laconic::models {

ResidualBlock::ResidualBlock(const std::vector<Conv2d::Options>& convolutions, std::shared_ptr<Module> shortcut)
    : shortcut_(std::move(shortcut)) {
  for (const Conv2d::Options& o : convolutions) {
    const std::string number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(child<Conv2d>("conv" + number, o));
    // In the order of use, so that gradients lie in the order in which they become ready.
    if (convolutions_.size() == convolutions.size() && shortcut_) child("downsample", shortcut_);
    norms_.push_back(child<BatchNorm2d>("bn" + number, {.channels = o.out}));
  }
}

Tensor ResidualBlock::forward(const Tensor& x) {
  Tensor h = x;
  for (std::size_t i = 0; i + 1 < norms_.size(); ++i) h = norms_[i]->forward_relu((*convolutions_[i])(h));
  h = (*convolutions_.back())(h);
  return norms_.back()->forward_add_relu(h, shortcut_ ? (*shortcut_)(x) : x);
}

}  // namespace laconic::models
