#pragma once
#include <string>
#include <vector>

#include "layers/module.h"

namespace laconic {

/// One layer of a model, as a forward pass of one sample (an image; the words of one step) goes through it.
struct LayerSummary {
  std::string name, kind;  ///< "features.0", "Conv2d"
  Shape output;            ///< of a batch of one
  std::int64_t parameters = 0;  ///< shared ones at their first layer
  /// Two for each multiply-add with an element of a weight: convolutions, linear and recurrent layers. Biases,
  /// normalisation, activations and pooling are left out: together a few per cent.
  double flop = 0;
};

/// The layers of a model in the order of forward, auxiliary heads included where it has them; a ReLU that the layer in
/// front does has no line. Computes nothing and does not need values: the input is a ghost (core/device.h).
///   input : of one sample, as ModelInfo::input
std::vector<LayerSummary> summarize(Module& model, const Shape& input);

}  // namespace laconic
