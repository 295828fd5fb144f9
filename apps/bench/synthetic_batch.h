#pragma once
#include <cstdint>

#include "core/tensor.h"
#include "layers/models/zoo.h"

namespace laconic {

/// What benchmarks train on: the same values always, which no model can learn.
struct SyntheticBatch {
  Tensor images;  ///< [batch, C, H, W], normal; for a language model words [T, batch], even over the vocabulary
  Tensor labels;  ///< [batch], even over the model's classes; [T batch]
};

SyntheticBatch synthetic_batch(const ModelInfo& model, std::int64_t batch, Device device = kCpu);

}  // namespace laconic
