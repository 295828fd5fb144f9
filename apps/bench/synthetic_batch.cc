#include "apps/bench/synthetic_batch.h"

#include <span>
#include <vector>

#include "core/random.h"

namespace laconic {

SyntheticBatch synthetic_batch(const ModelInfo& model, std::int64_t batch) {
  Random random(0, Purpose::test);
  std::vector<float> pixels(static_cast<std::size_t>(batch * model.input.elements()));
  for (float& p : pixels) p = random.normal();
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch));
  for (auto& l : labels) l = random.below(static_cast<std::uint32_t>(model.classes));
  return {Tensor::of({batch, model.input[0], model.input[1], model.input[2]}, pixels),
          Tensor::of({batch}, std::span<const std::int64_t>(labels))};
}

}  // namespace laconic
