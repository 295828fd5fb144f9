#pragma once
#include <cstdint>

#include "compress/select/layer_drop.h"

namespace laconic::dist {

/// Stands ahead of each message about a layer. Alone it says that the layer was dropped.
///
///     little-endian   step : u32 | version : u32 | comes : u32     1: the floats follow; 0: nothing does
struct LayerHeader {
  std::uint32_t step = 0;     ///< of the round
  std::uint32_t version = 0;  ///< up: the one that the worker holds; down: the one that it holds from now on
  std::uint32_t comes = 0;
};
static_assert(sizeof(LayerHeader) == 12);

/// What can be set of layer dropping (layer_drop.cc).
struct LayerDropRules {
  double drop_ratio = 0.9;             ///< R in [0, 1)
  std::int64_t threshold_every = 100;  ///< steps; 0: only when the learning rate changes
  compress::LayerNorm norm = compress::LayerNorm::mean;
  std::int64_t max_age = 0;   ///< a layer is sent at least every so many steps; 0: never for its age
  bool keeps_losses = false;  ///< what a codec loses of a sum stays behind, in place of Legs::keeps_losses
};

}  // namespace laconic::dist
