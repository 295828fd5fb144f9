// Trains on CIFAR-10 (32 x 32 colour images, 10 classes).
#include "apps/image_task.h"
#include "apps/train.h"
#include "data/cifar.h"

namespace {

laconic::AppDefaults defaults() {
  laconic::AppDefaults app;
  app.program = "cifar10";
  app.description = "Trains a network on CIFAR-10.";
  app.footer =
      "Examples:\n"
      "  cifar10 --model resnet20 --workers 4    four workers as threads of this process\n"
      "  cifar10 --model vgg16 --lr 0.05 --schedule warmup:5+cosine --epochs 60\n"
      "  laconic launch -n 4 cifar10 --batch 32  four workers as processes, over MPI";
  app.models = {"resnet20", "resnet32", "resnet44", "resnet56", "alexnet", "alexnet-32", "vgg16", "vgg16-32"};
  app.options.model = "resnet20";
  app.options.data = "data/cifar-10-batches-bin";
  app.options.epochs = 60;
  app.options.batch = 128;
  app.options.lr = 0.1f;
  app.options.momentum = 0.9f;
  app.options.weight_decay = 5e-4f;
  app.options.schedule = "warmup:2+cosine";
  app.task = [](const laconic::TrainOptions& o) {
    return laconic::make_image_task({.load = [](const std::string& data) { return laconic::load_cifar10(data); },
                                     .crops_and_flips = true,
                                     .aliases = {{"alexnet", "alexnet-32"}, {"vgg16", "vgg16-32"}}},
                                    o.data);
  };
  return app;
}

}  // namespace

int main(int argc, char** argv) { return laconic::train_main(argc, argv, defaults); }
