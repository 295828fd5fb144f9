// Trains on MNIST or Fashion-MNIST (28 x 28 grey images, 10 classes).
#include "apps/image_task.h"
#include "apps/train.h"
#include "data/mnist.h"

namespace {

laconic::AppDefaults defaults() {
  laconic::AppDefaults app;
  app.program = "mnist";
  app.description = "Trains a network on MNIST or Fashion-MNIST.";
  app.footer =
      "Examples:\n"
      "  mnist --workers 4                       four workers as threads of this process\n"
      "  mnist --model hdc --optimizer adam --lr 0.001 --batch 128\n"
      "  laconic launch -n 4 mnist --batch 16    four workers as processes, over MPI";
  app.models = {"lenet", "hdc", "hdc-2.5mb"};
  app.options.model = "lenet";
  app.options.data = "/usr/share/datasets/fashion-mnist";
  app.options.epochs = 10;
  app.options.batch = 64;
  app.options.lr = 0.05f;
  app.options.momentum = 0.9f;
  app.options.weight_decay = 5e-4f;
  app.options.schedule = "cosine";
  app.task = [](const laconic::TrainOptions& o) {
    return laconic::make_image_task({.load = [](const std::string& data) { return laconic::load_mnist(data); }},
                                    o.data);
  };
  return app;
}

}  // namespace

int main(int argc, char** argv) { return laconic::train_main(argc, argv, defaults); }
