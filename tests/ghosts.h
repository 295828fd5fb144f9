#pragma once
#include "layers/loss.h"
#include "layers/models/zoo.h"

namespace laconic {

/// peak_activation_bytes() of a classifier's training step.   input : of one sample, as ModelInfo::input
inline std::size_t peak_of_step(Module& model, const Shape& input, std::int64_t batch) {
  const GhostBatch ghosts = ghost_batch(input, batch);
  return peak_activation_bytes([&] { return classification_loss(model, ghosts.x, ghosts.labels); });
}

}  // namespace laconic
