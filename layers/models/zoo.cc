#include "layers/models/zoo.h"

#include "core/base/catalogue.h"
#include "layers/models/gpt.h"
#include "layers/models/language_model.h"
#include "layers/models/models.h"

namespace laconic {
namespace {

std::vector<ModelInfo> of_laconic() {
  using namespace models;
  const Shape mnist{1, 28, 28}, cifar{3, 32, 32}, imagenet{3, 224, 224};
  const auto residual = [](std::array<int, 4> blocks, bool bottleneck) {
    return [=](const ModelOptions& o) { return resnet({blocks, bottleneck, o.resnet_v1, o.classes}); };
  };
  const auto inception = [](bool batch_norm) {
    return [=](const ModelOptions& o) { return googlenet({batch_norm, o.auxiliary_heads, o.classes}); };
  };
  std::vector<ModelInfo> all = {
      {"lenet", mnist, 10, [](auto& o) { return lenet(o.classes); }},
      {"hdc", mnist, 10, [](auto& o) { return hdc(o.classes); }},
      {"hdc-2.5mb", mnist, 10, [](auto& o) { return hdc_2_5mb(o.classes); }},
      {"alexnet-32", cifar, 10, [](auto& o) { return alexnet32(o.classes); }},
      {"vgg16-32", cifar, 10, [](auto& o) { return vgg16_32(o.classes); }},
      {"resnet20", cifar, 10, [](auto& o) { return resnet_cifar(3, o.classes); }},
      {"resnet32", cifar, 10, [](auto& o) { return resnet_cifar(5, o.classes); }},
      {"resnet44", cifar, 10, [](auto& o) { return resnet_cifar(7, o.classes); }},
      {"resnet56", cifar, 10, [](auto& o) { return resnet_cifar(9, o.classes); }},
      {"alexnet", imagenet, 1000, [](auto& o) { return alexnet({.classes = o.classes}); }},
      {"alexnet-original", imagenet, 1000, [](auto& o) { return alexnet_original({.classes = o.classes}); }},
      {"alexnet-ungrouped", {3, 227, 227}, 1000, [](auto& o) { return alexnet_ungrouped({.classes = o.classes}); }},
      {"vgg16", imagenet, 1000, [](auto& o) { return vgg16({.batch_norm = false, .classes = o.classes}); }},
      {"vgg16_bn", imagenet, 1000, [](auto& o) { return vgg16({.batch_norm = true, .classes = o.classes}); }},
      {"resnet18", imagenet, 1000, residual({2, 2, 2, 2}, false)},
      {"resnet34", imagenet, 1000, residual({3, 4, 6, 3}, false)},
      {"resnet50", imagenet, 1000, residual({3, 4, 6, 3}, true), true},
      {"resnet101", imagenet, 1000, residual({3, 4, 23, 3}, true), true},
      {"googlenet", imagenet, 1000, inception(false), false, true},
      // Its published weights came from TensorFlow, whose pixels were in [-1, 1]; torchvision's transform_input undoes
      // ImageNet's scale.
      {.name = "googlenet-torchvision",
       .input = imagenet,
       .classes = 1000,
       .build = inception(true),
       .has_auxiliary_heads = true,
       .pixels = PixelScale{{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}}},
  };
  for (const LanguageRecipe& r : language_recipes())
    all.push_back({r.name, {r.bptt}, r.model.vocabulary, [published = r.model](auto& o) {
                     LanguageModel::Options model = published;
                     model.vocabulary = o.classes;
                     return std::make_shared<LanguageModel>(model);
                   }});
  for (const GptRecipe& r : gpt_recipes())
    all.push_back({r.name, {r.model.block}, r.model.vocabulary, [published = r.model](auto& o) {
                     GPT::Options model = published;
                     model.vocabulary = o.classes;
                     return std::make_shared<GPT>(model);
                   }});
  return all;
}

}  // namespace

std::vector<ModelInfo>& models_of_zoo() {
  static std::vector<ModelInfo> all = of_laconic();
  return all;
}

const ModelInfo& model_info(const std::string& name) { return row_named(models_of_zoo(), name, "model", "`model`"); }

std::shared_ptr<Module> make_model(const std::string& name, const ModelOptions& options) {
  const ModelInfo& info = model_info(name);
  require<UsageError>(!options.resnet_v1 || info.has_v1, "the model ", name,
                      " has no other place for its strides (`resnet-v1`): it is for resnet50 and resnet101");
  require<UsageError>(!options.auxiliary_heads || info.has_auxiliary_heads, "the model ", name,
                      " has no auxiliary heads (`auxiliary-heads`): googlenet and googlenet-torchvision have");
  ModelOptions resolved = options;
  if (resolved.classes <= 0) resolved.classes = info.classes;
  auto model = info.build(resolved);
  if (info.has_v1) model->set_setting("resnet-v1", options.resnet_v1 ? "yes" : "no");
  model->name_all();
  return model;
}

GhostBatch ghost_batch(const Shape& input, std::int64_t batch) {
  if (input.rank() == 1)
    return {Tensor::empty({input[0], batch}, DType::i64, kGhost), Tensor::zeros({input[0] * batch}, DType::i64)};
  return {Tensor::empty({batch, input[0], input[1], input[2]}, DType::f32, kGhost),
          Tensor::zeros({batch}, DType::i64)};
}

}  // namespace laconic
