#pragma once
#include <functional>
#include <string>
#include <vector>

#include "layers/module.h"

/// A model's layers, work and memory, without computing anything: on ghosts (core/device.h).
namespace laconic {

/// One layer of a model, as a forward pass goes through it.
struct LayerSummary {
  std::string name, kind;       ///< "features.0", "Conv2d"
  Shape output;                 ///< the shape of the whole batch's output
  std::int64_t parameters = 0;  ///< shared ones at their first layer
  /// Two for each multiply-add with an element of a weight: convolutions, linear and recurrent layers. Biases,
  /// normalisation, activations and pooling are left out: together a few per cent.
  double flop = 0;
};

/// The layers of a model in the order of forward, auxiliary heads included where it has them; a ReLU that the layer in
/// front does has no line. Parameters need no values, and of x only shape and type count.
///   x : a batch, as the model takes it
std::vector<LayerSummary> summarize(Module& model, const Tensor& x);

/// Returns summarize() as a table to print, with the sum of parameters and the number of frozen ones.
std::string summary(Module& model, const Tensor& x);

/// Most bytes that lie between a model's layers at once (activations, masks, and their gradients) when `loss` runs
/// forward and backward on a ghost that it holds: all that a training step allocates but for parameters, their
/// gradients, and kernels' work space. Gradients count as present in an arena and are marked as written.
std::size_t peak_activation_bytes(const std::function<Tensor()>& loss);

}  // namespace laconic
