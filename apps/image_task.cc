#include "apps/image_task.h"

#include "apps/options.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

void require_fit(const ModelInfo& model, const ImageDataset& data, const std::string& where) {
  const Shape image{data.channels, data.height, data.width};
  require<UsageError>(model.input == image, "the model ", model.name, " takes images of ", model.input, ", but ", where,
                      " has ", image, " (--model, --data): choose a model and data that fit");
}

class ImageTask final : public Task {
 public:
  ImageTask(ImageTaskOptions app, const std::string& data)
      : app_(std::move(app)), data_([load = app_.load, data] { return load(data); }) {}

  std::string model_name(const TrainOptions& o) const override {
    const auto alias = app_.aliases.find(o.model);
    return alias == app_.aliases.end() ? o.model : alias->second;
  }

  std::unique_ptr<Workload> workload(const TrainOptions& o, int rank, int workers) override {
    const std::shared_ptr<const ImageDataset> data = data_.get();
    const std::string model = model_name(o);
    require_fit(model_info(model), *data, o.data);
    ImageClassification::Options task = classification_options(o);
    if (app_.crops_and_flips && !o.no_augment) task.augment = kPadCropFlip;
    return std::make_unique<ImageClassification>(make_model(model, model_options(o, data->classes)), data, rank, workers,
                                                 task);
  }

 private:
  ImageTaskOptions app_;
  Once<ImageDataset> data_;
};

}  // namespace

ImageClassification::Options classification_options(const TrainOptions& o) {
  return {.batch = o.batch,
          .shuffle = !o.no_shuffle,
          .label_smoothing = o.label_smoothing,
          .data_threads = o.data_threads,
          .seed = o.seed};
}

ModelOptions model_options(const TrainOptions& o, int classes) {
  return {.classes = classes, .resnet_v1 = o.resnet_v1, .auxiliary_heads = o.auxiliary_heads};
}

std::unique_ptr<Task> make_image_task(ImageTaskOptions app, const std::string& data) {
  return std::make_unique<ImageTask>(std::move(app), data);
}

}  // namespace laconic
