#include <filesystem>

#include "apps/task.h"

namespace laconic {
namespace {

/// What --data names: a path, or NAME[:DIR] of the table.
struct Where {
  ImageDatasetKind kind;
  std::string folder;
};
Where where_is(const std::string& data, const std::string& own) {
  std::error_code ignored;
  for (const ImageDatasetKind& kind : image_datasets())
    if (data.starts_with(kind.name + ":") || (data == kind.name && !std::filesystem::exists(data, ignored)))
      return {kind, data == kind.name ? kind.folder : data.substr(kind.name.size() + 1)};
  // MNIST and Fashion-MNIST have files of the same names: a folder's name tells which of them it holds.
  return {image_dataset(own == "fashion-mnist" ? "mnist" : own), data};
}

class ImageTask final : public Task {
 public:
  explicit ImageTask(const Where& where)
      : crops_and_flips_(where.kind.crops_and_flips), data_(once([where] { return where.kind.load(where.folder); })) {}

  std::unique_ptr<Workload> workload(const TrainOptions& o, int rank, int workers) override {
    const std::shared_ptr<const ImageDataset> data = data_.get();
    const ModelInfo& model = model_info(o.model);
    const Shape image{data->channels, data->height, data->width};
    require<UsageError>(model.input == image, "the model ", model.name, " takes images of ", model.input, ", but ",
                        o.data, " has ", image, " (--model, --data): choose a model and data that fit");
    ImageClassification::Options task = classification_options(o);
    if (crops_and_flips_ && !o.no_augment) task.augment = kPadCropFlip;
    return std::make_unique<ImageClassification>(make_model(o, data->classes), data, rank, workers, task);
  }

 private:
  bool crops_and_flips_;
  Once<ImageDataset> data_;
};

}  // namespace

ImageClassification::Options classification_options(const TrainOptions& o) {
  ImageClassification::Options task = o.images;
  task.batch = o.batch, task.seed = o.trainer.seed;
  return task;
}

std::shared_ptr<Module> make_model(const TrainOptions& o, int classes) {
  ModelOptions model = o.zoo;
  model.classes = classes;
  return make_model(o.model, model);
}

std::unique_ptr<Task> make_image_task(const Program& program, const TrainOptions& o) {
  return std::make_unique<ImageTask>(where_is(o.data, program.images));
}

}  // namespace laconic
