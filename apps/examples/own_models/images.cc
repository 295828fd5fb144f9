// A convolutional network on a folder of pictures: DIR/train/CLASS/*.png, DIR/val/CLASS/*.png.
#include <laconic/data/photo_transform.h>
#include <laconic/dist/trainer/supervised.h>
#include <laconic/dist/trainer/trainer.h>
#include <laconic/layers/layers.h>

#include <cstdio>

using namespace laconic;

class Net final : public Module {
  Child<Conv2d> a = child<Conv2d>("a", {.in = 3, .out = 8, .pad = 1}),
                b = child<Conv2d>("b", {.in = 8, .out = 16, .pad = 1});
  Child<Linear> out = child<Linear>("out", {.in = 16, .out = 2, .output = true});
  Tensor forward(const Tensor& x) override {
    const Tensor h = relu(b(max_pool2d(relu(a(x)), {.kernel = 2})));
    return out(mean(h, {2, 3}));
  }
};

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("give the folder of pictures"), 1;
  const PhotoDataset photos = open_photos(argv[1]);
  const auto model = std::make_shared<Net>();
  dist::run_workers({.workers = 2}, [&](dist::Worker& worker) {
    Supervised task(worker.rank == 0 ? model : std::make_shared<Net>(),
                    photo_dataset(photos.train, {.size = 16, .augment = {.flip = true}}),
                    photo_dataset(photos.validation, {.size = 16}), CrossEntropy(), worker, {.batch = 4});
    Trainer(worker, task, {.epochs = 15, .lr = 0.1}).run();
  });
  save_safetensors(model->state_dict(), "images.safetensors");
  Random random(0, Purpose::augment);
  const Example one = photo_dataset(photos.validation, {.size = 16})->get(0, random);
  const Tensor logits = predict(*model, one.x);
  std::printf("images: the first picture is of class %s\n",
              photos.classes[static_cast<std::size_t>(argmax(logits, 0).item())].c_str());
  return argmax(logits, 0).item() == one.y.item() ? 0 : 1;
}
