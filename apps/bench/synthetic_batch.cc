#include "apps/bench/synthetic_batch.h"

#include <span>
#include <vector>

#include "core/random.h"

namespace laconic {

SyntheticBatch synthetic_batch(const ModelInfo& model, std::int64_t batch, Device device) {
  Random random(0, Purpose::test);
  if (model.reads_text()) {
    const auto words = [&](const Shape& shape) {
      std::vector<std::int64_t> values(static_cast<std::size_t>(shape.elements()));
      for (auto& v : values) v = random.below(static_cast<std::uint32_t>(model.classes));
      return Tensor::of(shape, std::span<const std::int64_t>(values), device);
    };
    const Tensor x = words({model.input[0], batch});
    return {x, words({x.elements()})};
  }
  std::vector<float> pixels(static_cast<std::size_t>(batch * model.input.elements()));
  for (float& p : pixels) p = random.normal();
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch));
  for (auto& l : labels) l = random.below(static_cast<std::uint32_t>(model.classes));
  return {Tensor::of({batch, model.input[0], model.input[1], model.input[2]}, pixels, device),
          Tensor::of({batch}, std::span<const std::int64_t>(labels), device)};
}

}  // namespace laconic
