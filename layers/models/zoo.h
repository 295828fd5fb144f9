#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/module.h"

namespace laconic {

/// A model that apps know by name.
struct ModelInfo {
  std::string name;
  Shape input;       ///< of one sample: [3, 32, 32]; of a language model, a stream's words in one step: [35]
  int classes = 10;  ///< outputs unless asked otherwise; of a language model the vocabulary
  std::function<std::shared_ptr<Module>(int classes)> build;
  bool reads_text() const { return input.rank() == 1; }  ///< a language model: x is i64 [words, streams]
};

/// All of them, in the order of docs.
const std::vector<ModelInfo>& models_of_zoo();
/// Throws UsageError for an unknown name, with the nearest known one.
const ModelInfo& model_info(const std::string& name);

struct ModelOptions {
  int classes = 0;  ///< 0: the model's own
};
/// A new model; parameters are undefined until initialize(seed) or until weights are loaded.
std::shared_ptr<Module> make_model(const std::string& name, const ModelOptions& options = {});

}  // namespace laconic
