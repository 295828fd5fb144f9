#pragma once
#include "layers/auxiliary_heads.h"
#include "layers/sequential.h"

namespace laconic::models {

/// GoogLeNet (Inception v1), in one of two forms:
///   published     5x5 convolutions in the third branches, biases, local response normalisation: 6,998,552 parameters
///   batch_norm    as torchvision has it: 3x3 there, batch norm (epsilon 0.001) after every convolution: 6,624,904
/// With auxiliary heads, behind inception4a and inception4d: 13,378,280 and 13,004,888; their losses weigh 0.3.
///   x : [N, 3, 224, 224], or smaller, down to 47 x 47 (with heads 80 x 80), torchvision's to 33 x 33 -> [N, classes]
///   names    torchvision's: conv1.conv.weight, inception3a.branch2.0.conv.weight, aux1.fc1.weight, fc.weight, …
///   initial values   batch_norm: torchvision's, weights ~ Normal(0, 0.01^2). published: the paper has none; those of
///            Caffe's model, weights init::xavier, biases 0.2 (0 in the layers that predict)
///   source   Szegedy et al. 2015, "Going deeper with convolutions", Table 1; Caffe's bvlc_googlenet for what it leaves
///            open (windows rounded up, normalisation before the second convolution and behind the third, k = 1)
class GoogLeNet final : public Module, public HasAuxiliaryHeads {
 public:
  struct Options {
    bool batch_norm = false, auxiliary_heads = false;
    int classes = 1000;
  };
  explicit GoogLeNet(Options o);
  Outputs outputs(const Tensor& x) override;
  float auxiliary_weight() const override { return 0.3f; }
  void checkpoint_activations(bool on = true) override;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  using Layers = std::vector<std::pair<std::string, Sequential::Layer>>;
  /// Layers of this model's own, that run one after another.
  std::shared_ptr<Sequential> part(const Layers& layers);

  std::shared_ptr<Sequential> to_4a_, to_4d_, rest_;
  std::vector<std::shared_ptr<Sequential>> heads_;  // none, or behind inception4a and inception4d
};

}  // namespace laconic::models
