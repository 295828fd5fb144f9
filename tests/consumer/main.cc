// A model of one's own, trained by two workers on generated images, against an installed laconic.
#include <laconic/data/synthetic.h>
#include <laconic/dist/trainer/image_classification.h>
#include <laconic/dist/trainer/trainer.h>
#include <laconic/layers/layers.h>

#include <cstdio>

using namespace laconic;

/// 1x28x28: conv3-8, ReLU, maxpool2; conv3-16, ReLU, maxpool2; FC 784-10.
class OwnModel final : public Module {
 public:
  Tensor forward(const Tensor& x) override { return (*layers_)(x); }

 private:
  std::shared_ptr<Module> layers_ = child(
      "layers", sequential({make<Conv2d>({.in = 1, .out = 8, .pad = 1}), make<ReLU>(), make<MaxPool2d>({.kernel = 2}),
                            make<Conv2d>({.in = 8, .out = 16, .pad = 1}), make<ReLU>(), make<MaxPool2d>({.kernel = 2}),
                            make<Flatten>(), make<Linear>({.in = 784, .out = 10})}));
};

int main() {
  const auto data = std::make_shared<const ImageDataset>(synthetic_mnist({.train = 2000, .test = 500}));
  double error = 100;
  dist::run_workers({.workers = 2}, [&](dist::Worker& worker) {
    ImageClassification task(std::make_shared<OwnModel>(), data, worker.rank, worker.size, {.batch = 16});
    Trainer trainer(worker, task, {.epochs = 2, .lr = 0.05, .optimizer = {.momentum = 0.9}});
    const RunSummary summary = trainer.run();
    if (worker.rank == 0) error = summary.last_eval->top1_error;
  });
  std::printf("own_model: test accuracy %.1f %% (guessing: 10 %%)\n", 100 - error);
  return error < 50 ? 0 : 1;
}
