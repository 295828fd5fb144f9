#include "layers/models/zoo.h"

#include "layers/models/lenet.h"

namespace laconic {

const std::vector<ModelInfo>& models_of_zoo() {
  static const std::vector<ModelInfo> kModels = {
      {"lenet", {1, 28, 28}, 10, models::lenet},
  };
  return kModels;
}

const ModelInfo& model_info(const std::string& name) {
  std::vector<std::string> names;
  for (const ModelInfo& m : models_of_zoo()) {
    if (m.name == name) return m;
    names.push_back(m.name);
  }
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  const std::string near = nearest(name, names);
  throw UsageError(concat("model: '", name, "' is unknown. ", near.empty() ? "" : "Did you mean '" + near + "'? ",
                          "Known: ", known, "."));
}

std::shared_ptr<Module> make_model(const std::string& name, const ModelOptions& options) {
  const ModelInfo& info = model_info(name);
  auto model = info.build(options.classes > 0 ? options.classes : info.classes);
  model->name_all();
  return model;
}

}  // namespace laconic
