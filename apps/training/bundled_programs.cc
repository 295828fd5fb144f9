// The training programs that come with laconic, but for those of language models (apps/training/language_task.cc), and
// presets.
#include <sstream>

#include "apps/training/options.h"
#include "core/base/catalogue.h"

namespace laconic {

Program mnist_program() {
  return {.name = "mnist",
          .summary = "Trains a network on MNIST or Fashion-MNIST.",
          .examples =
              "Examples:\n"
              "  mnist --workers 4                       four workers as threads of this process\n"
              "  mnist --model hdc --optimizer adam --lr 0.001 --batch 128\n"
              "  laconic launch -n 4 mnist --batch 16    four workers as processes, over MPI",
          .options = "--epochs 10 --batch 64 --lr 0.05 --momentum 0.9 --weight-decay 5e-4 --schedule cosine",
          .models = {"lenet", "hdc", "hdc-2.5mb"},
          .images = "fashion-mnist"};
}

Program cifar10_program() {
  return {.name = "cifar10",
          .summary = "Trains a network on CIFAR-10.",
          .examples =
              "Examples:\n"
              "  cifar10 --model resnet20 --workers 4    four workers as threads of this process\n"
              "  cifar10 --model vgg16 --lr 0.05 --schedule warmup:5+cosine --epochs 60\n"
              "  laconic launch -n 4 cifar10 --batch 32  four workers as processes, over MPI",
          .options = "--epochs 60 --batch 128 --lr 0.1 --momentum 0.9 --weight-decay 5e-4 --schedule warmup:2+cosine",
          .models = {"resnet20", "resnet32", "resnet44", "resnet56", "alexnet", "alexnet-32", "vgg16", "vgg16-32"},
          .aliases = {{"alexnet", "alexnet-32"}, {"vgg16", "vgg16-32"}},
          .images = "cifar-10"};
}

/// The recipe of He et al. 2015 and Goyal et al. 2017; for networks without batch normalisation that of Krizhevsky et
/// al. 2012 and Simonyan & Zisserman 2014, whose rates are lower.
static void use_classic_recipe(TrainOptions& o) {
  const bool plain = o.model.starts_with("alexnet") || o.model == "vgg16" || o.model == "googlenet";
  o.lr_per_256 = plain ? 0.01f : 0.1f;
  o.weight_decay = plain ? 5e-4f : 1e-4f;
}

Program imagenet_program() {
  Program program{
      .name = "imagenet",
      .summary = "Trains a network on photographs: ImageNet, or folders of yours.",
      .examples =
          "Examples:\n"
          "  imagenet --data /data/imagenet --workers 4 --batch 64    four workers as threads of this process\n"
          "  imagenet --data imagenet.pack --data-threads 4 --save run --save-every 1\n"
          "  imagenet --init run/weights.safetensors --predict dog.jpg cat.jpg\n"
          "  laconic launch -n 8 --hosts a,b imagenet --data /data/imagenet",
      .options =
          "--model resnet50 --data data/imagenet --epochs 90 --batch 64 --momentum 0.9 --schedule "
          "warmup:5+multistep:30,60,80,0.1",
      .models = {},
      .reads = Program::Reads::photographs,
      .of_model = use_classic_recipe};
  for (const ModelInfo& model : models_of_zoo())
    if (model.input.rank() == 3 && model.input[0] == 3) program.models.push_back(model.name);
  return program;
}

std::vector<Program> programs() {
  return {mnist_program(), cifar10_program(), imagenet_program(), language_program(), gpt_program()};
}

const std::vector<Preset>& presets() {
  // Table I prints its learning rates with a minus sign, and says by how much they are divided.
  // Its ResNet has 50 layers. The nearest of the models for small images is resnet56.
  static const std::vector<Preset> all{
      {"WA", {"--sync", "ps"}, true},
      {"WA+C", {"--sync", "ps", "--codec", "inceptionn:2^-10"}, true},
      {"INC", {"--sync", "allreduce", "--allreduce", "ring"}, true},
      {"INC+C", {"--sync", "allreduce", "--allreduce", "ring", "--codec", "inceptionn:2^-10"}, true},
      {"redsync-alexnet", {"--sync", "redsync", "--density", "0.01", "--no-mask", "--warmup", "dense:1"}, true},
      {"inceptionn-alexnet",
       {"--model", "alexnet", "--batch", "64", "--lr", "0.01", "--schedule", "step:100000it,0.1", "--momentum", "0.9",
        "--weight-decay", "5e-5", "--steps", "320000"}},
      {"inceptionn-hdc",
       {"--model", "hdc", "--batch", "25", "--lr", "0.1", "--schedule", "step:2000it,0.2", "--momentum", "0.9",
        "--weight-decay", "5e-5", "--steps", "10000"}},
      {"inceptionn-resnet",
       {"--model", "resnet50", "--batch", "16", "--lr", "0.1", "--schedule", "step:200000it,0.1", "--momentum", "0.9",
        "--weight-decay", "1e-4", "--steps", "600000"},
       false,
       "resnet56"},
      {"inceptionn-vgg",
       {"--model", "vgg16", "--batch", "64", "--lr", "0.01", "--schedule", "step:100000it,0.1", "--momentum", "0.9",
        "--weight-decay", "5e-5", "--steps", "370000"}},
      {"shakespeare-char-cpu", {"--model", "gpt-4x128"}},
      {"shakespeare-char", {"--model", "gpt-6x384"}}};
  return all;
}

std::vector<const Preset*> presets_named(const std::string& list, const std::string& option) {
  std::vector<const Preset*> all;
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');) all.push_back(&row_named(presets(), name, "preset", option));
  if (all.empty()) row_named(presets(), list, "preset", option);
  return all;
}

}  // namespace laconic
