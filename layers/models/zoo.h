#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layers/summary.h"

namespace laconic {

struct ModelOptions {
  int classes = 0;               ///< 0: the model's own
  bool resnet_v1 = false;        ///< the stride of resnet50 and 101 in the first 1x1, as published, not in the 3x3
  bool auxiliary_heads = false;  ///< the heads of the GoogLeNets (layers/loss.h)
};

/// What a network sees of a pixel x in 0 … 255: (x/255 - mean) / std, by channel.
struct PixelScale {
  std::array<float, 3> mean, std;
};

/// A model that programs know by name.
struct ModelInfo {
  std::string name;
  Shape input;       ///< one sample's shape: [3, 32, 32]; a language model's is a stream's words in one step: [35]
  int classes = 10;  ///< outputs unless asked otherwise; of a language model the vocabulary
  std::function<std::shared_ptr<Module>(const ModelOptions&)> build;  ///< classes are not 0
  bool has_v1 = false, has_auxiliary_heads = false;                   ///< those options are for it
  /// Set where the weights that are published for it want another mean and deviation than ImageNet's.
  std::optional<PixelScale> pixels{};
  bool reads_text() const { return input.rank() == 1; }  ///< a language model: x is i64 [words, streams]
};

/// The table of all models, in the order of docs. Add your own before a program is called.
std::vector<ModelInfo>& models_of_zoo();
/// Throws UsageError for an unknown name, with the nearest known one. The reference holds until the table changes.
const ModelInfo& model_info(const std::string& name);

/// A new model; parameters are undefined until initialize(seed) or until weights are loaded.
/// Throws UsageError for an unknown name, or an option that the model does not have.
std::shared_ptr<Module> make_model(const std::string& name, const ModelOptions& options = {});

/// What a batch of a model looks like, without its values: images [batch, C, H, W] or words i64 [words, batch], and a
/// label for each sample or word.
struct GhostBatch {
  Tensor x, labels;  ///< x on the ghost device (core/device.h); labels 0, in host memory
};
GhostBatch ghost_batch(const Shape& input, std::int64_t batch);

}  // namespace laconic
