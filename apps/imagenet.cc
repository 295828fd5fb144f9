// Trains on photographs in folders of classes, such as ImageNet (ILSVRC-2012: 1,281,167 images, 1,000 classes), and
// says what others are.
#include "apps/options.h"

namespace {

/// The recipe of He et al. 2015 and Goyal et al. 2017; for networks without batch normalisation that of Krizhevsky et
/// al. 2012 and Simonyan & Zisserman 2014, whose rates are lower.
void use_classic_recipe(laconic::TrainOptions& o) {
  const bool plain = o.model.starts_with("alexnet") || o.model == "vgg16" || o.model == "googlenet";
  o.lr_per_256 = plain ? 0.01f : 0.1f;
  o.weight_decay = plain ? 5e-4f : 1e-4f;
}

}  // namespace

int main(int argc, char** argv) {
  laconic::Program program{
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
      .reads = laconic::Program::Reads::photographs,
      .of_model = use_classic_recipe};
  for (const laconic::ModelInfo& model : laconic::models_of_zoo())
    if (model.input.rank() == 3 && model.input[0] == 3) program.models.push_back(model.name);
  return laconic::run_program(argc, argv, program);
}
