#include "layers/models/zoo.h"

#include "layers/auxiliary_heads.h"
#include "layers/models/alexnet.h"
#include "layers/models/alexnet32.h"
#include "layers/models/googlenet.h"
#include "layers/models/hdc.h"
#include "layers/models/language_model.h"
#include "layers/models/lenet.h"
#include "layers/models/resnet.h"
#include "layers/models/resnet_cifar.h"
#include "layers/models/vgg16.h"
#include "layers/models/vgg16_32.h"

namespace laconic {
namespace {

const Shape kMnist{1, 28, 28}, kCifar{3, 32, 32}, kImageNet{3, 224, 224};

ModelInfo small(const char* name, const Shape& input, std::shared_ptr<Module> (*build)(int classes)) {
  return {name, input, 10, [build](const ModelOptions& o) { return build(o.classes); }};
}

ModelInfo resnet_cifar(const char* name, int n) {
  return {name, kCifar, 10, [n](const ModelOptions& o) { return models::resnet_cifar(n, o.classes); }};
}

ModelInfo alexnet(const char* name, std::shared_ptr<Module> (*build)(const models::AlexNetOptions&), int side = 224) {
  return {name, {3, side, side}, 1000, [build](const ModelOptions& o) { return build({.classes = o.classes}); }};
}

ModelInfo vgg16(const char* name, bool batch_norm) {
  return {name, kImageNet, 1000, [batch_norm](const ModelOptions& o) {
            return models::vgg16({.batch_norm = batch_norm, .classes = o.classes});
          }};
}

ModelInfo resnet(const char* name, std::array<int, 4> blocks, bool bottleneck) {
  ModelInfo info{name, kImageNet, 1000, [=](const ModelOptions& o) {
                   return models::resnet(
                       {.blocks = blocks, .bottleneck = bottleneck, .v1 = o.resnet_v1, .classes = o.classes});
                 }};
  info.has_v1 = bottleneck;
  return info;
}

ModelInfo googlenet(const char* name, bool batch_norm) {
  ModelInfo info{name, kImageNet, 1000, [=](const ModelOptions& o) {
                   return make<models::GoogLeNet>({.batch_norm = batch_norm,
                                                   .auxiliary_heads = o.auxiliary_heads,
                                                   .classes = o.classes});
                 }};
  info.has_auxiliary_heads = true;
  // torchvision's weights came from TensorFlow, whose pixels were in [-1, 1]; transform_input there undoes ImageNet's
  // scale.
  if (batch_norm) info.pixels = PixelScale{{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
  return info;
}

ModelInfo language_model(const models::LanguageRecipe& recipe) {
  return {recipe.name, {recipe.bptt}, recipe.model.vocabulary, [model = recipe.model](const ModelOptions& o) {
            models::LanguageModel::Options options = model;
            options.vocabulary = o.classes;
            return std::make_shared<models::LanguageModel>(options);
          }};
}

}  // namespace

const std::vector<ModelInfo>& models_of_zoo() {
  static const std::vector<ModelInfo> kModels = [] {
    std::vector<ModelInfo> all = {
        small("lenet", kMnist, models::lenet),
        small("hdc", kMnist, models::hdc),
        small("hdc-2.5mb", kMnist, models::hdc_2_5mb),
        small("alexnet-32", kCifar, models::alexnet32),
        small("vgg16-32", kCifar, models::vgg16_32),
        resnet_cifar("resnet20", 3),
        resnet_cifar("resnet32", 5),
        resnet_cifar("resnet44", 7),
        resnet_cifar("resnet56", 9),
        alexnet("alexnet", models::alexnet),
        alexnet("alexnet-original", models::alexnet_original),
        alexnet("alexnet-ungrouped", models::alexnet_ungrouped, 227),
        vgg16("vgg16", false),
        vgg16("vgg16_bn", true),
        resnet("resnet18", {2, 2, 2, 2}, false),
        resnet("resnet34", {3, 4, 6, 3}, false),
        resnet("resnet50", {3, 4, 6, 3}, true),
        resnet("resnet101", {3, 4, 23, 3}, true),
        googlenet("googlenet", false),
        googlenet("googlenet-torchvision", true),
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
  require<UsageError>(!options.resnet_v1 || info.has_v1, "the model ", name,
                      " has no other place for its strides (--resnet-v1): it is for resnet50 and resnet101");
  require<UsageError>(!options.auxiliary_heads || info.has_auxiliary_heads, "the model ", name,
                      " has no auxiliary heads (--auxiliary-heads): googlenet and googlenet-torchvision have");
  ModelOptions resolved = options;
  if (resolved.classes <= 0) resolved.classes = info.classes;
  auto model = info.build(resolved);
  model->name_all();
  return model;
}

GhostBatch ghost_batch(const Shape& input, std::int64_t batch) {
  if (input.rank() == 1)
    return {Tensor::empty({input[0], batch}, DType::i64, kGhost), Tensor::zeros({input[0] * batch}, DType::i64)};
  return {Tensor::empty({batch, input[0], input[1], input[2]}, DType::f32, kGhost),
          Tensor::zeros({batch}, DType::i64)};
}

std::size_t peak_activation_bytes(Module& model, const Shape& input, std::int64_t batch) {
  const GhostBatch ghosts = ghost_batch(input, batch);
  const std::size_t before = memory_stats(kGhost).in_use_bytes;
  reset_peak(kGhost);
  classification_loss(model, ghosts.x, ghosts.labels).backward();
  return memory_stats(kGhost).peak_bytes - before;
}

}  // namespace laconic
