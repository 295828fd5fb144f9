#include "layers/models/zoo.h"

#include "layers/models/alexnet32.h"
#include "layers/models/hdc.h"
#include "layers/models/language_model.h"
#include "layers/models/lenet.h"
#include "layers/models/resnet_cifar.h"
#include "layers/models/vgg16_32.h"

namespace laconic {
namespace {
template <int n>
std::shared_ptr<Module> resnet(int classes) {
  return models::resnet_cifar(n, classes);
}

ModelInfo language_model(const models::LanguageRecipe& recipe) {
  return {recipe.name, {recipe.bptt}, recipe.model.vocabulary, [model = recipe.model](int classes) {
            models::LanguageModel::Options options = model;
            options.vocabulary = classes;
            return std::make_shared<models::LanguageModel>(options);
          }};
}
}  // namespace

const std::vector<ModelInfo>& models_of_zoo() {
  static const std::vector<ModelInfo> kModels = [] {
    std::vector<ModelInfo> all = {
        {"lenet", {1, 28, 28}, 10, models::lenet},         {"hdc", {1, 28, 28}, 10, models::hdc},
        {"hdc-2.5mb", {1, 28, 28}, 10, models::hdc_2_5mb}, {"alexnet-32", {3, 32, 32}, 10, models::alexnet32},
        {"vgg16-32", {3, 32, 32}, 10, models::vgg16_32},   {"resnet20", {3, 32, 32}, 10, resnet<3>},
        {"resnet32", {3, 32, 32}, 10, resnet<5>},          {"resnet44", {3, 32, 32}, 10, resnet<7>},
        {"resnet56", {3, 32, 32}, 10, resnet<9>},
    };
    for (const models::LanguageRecipe& recipe : models::language_recipes()) all.push_back(language_model(recipe));
    return all;
  }();
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
