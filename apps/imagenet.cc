// Trains on photographs in folders of classes, such as ImageNet (ILSVRC-2012: 1,281,167 images, 1,000 classes), and
// says what others are.
#include <algorithm>

#include "apps/photo_task.h"
#include "apps/train.h"
#include "layers/models/zoo.h"

namespace {

using laconic::TrainOptions;

/// The recipe of He et al. 2015 and Goyal et al. 2017; for networks without batch normalisation that of Krizhevsky et
/// al. 2012 and Simonyan & Zisserman 2014, whose rates are lower.
void use_classic_recipe(TrainOptions& o) {
  const bool plain = o.model.rfind("alexnet", 0) == 0 || o.model == "vgg16" || o.model == "googlenet";
  o.lr_per_256 = plain ? 0.01f : 0.1f;
  o.weight_decay = plain ? 5e-4f : 1e-4f;
}

laconic::AppDefaults defaults() {
  laconic::AppDefaults app;
  app.program = "imagenet";
  app.description = "Trains a network on photographs: ImageNet, or folders of yours.";
  app.footer =
      "Examples:\n"
      "  imagenet --data /data/imagenet --workers 4 --batch 64    four workers as threads of this process\n"
      "  imagenet --data imagenet.pack --data-threads 4 --save run --save-every 1\n"
      "  imagenet --init run/weights.safetensors --predict dog.jpg cat.jpg\n"
      "  laconic launch -n 8 --hosts a,b imagenet --data /data/imagenet";
  for (const laconic::ModelInfo& model : laconic::models_of_zoo())
    if (model.input.rank() == 3 && model.input[0] == 3) app.models.push_back(model.name);
  for (const char* name : {"resnet50", "resnet20"})
    if (app.options.model.empty() && std::count(app.models.begin(), app.models.end(), name) > 0)
      app.options.model = name;
  app.options.data = "data/imagenet";
  app.options.epochs = 90;
  app.options.batch = 64;
  app.options.momentum = 0.9f;
  app.options.schedule = "warmup:5+multistep:30,60,80,0.1";
  use_classic_recipe(app.options);
  app.of_model = use_classic_recipe;
  app.reads_photos = true;
  app.task = laconic::make_photo_task;
  return app;
}

}  // namespace

int main(int argc, char** argv) {
  return laconic::train_main(argc, argv, defaults, [](const TrainOptions& options, const laconic::AppDefaults& app) {
    return options.predict.empty() ? laconic::run_training(options, app) : laconic::predict(options);
  });
}
