#include <fmt/format.h>

#include "apps/training/task.h"
#include "data/image_source.h"
#include "data/photo_transform.h"

namespace laconic {
namespace {

/// What photographs are for a model: the side of the square that it sees.
int image_size(const TrainOptions& o) {
  const ModelInfo& model = model_info(o.model);
  require<UsageError>(model.input.rank() == 3 && model.input[0] == 3, "the model ", o.model, " takes ", model.input,
                      ", no colour images (--model): choose another");
  return o.image_size > 0 ? o.image_size : static_cast<int>(model.input[1]);
}

PhotoTransform::Options view(const TrainOptions& o, bool training) {
  PhotoTransform::Options v{.size = image_size(o), .seed = o.trainer.seed};
  if (const auto& pixels = model_info(o.model).pixels) v.mean = pixels->mean, v.std = pixels->std;
  if (training && !o.no_augment) {
    v.augment = o.colors;
    v.augment.crop = v.augment.flip = true;
  }
  return v;
}

class PhotoTask final : public Task {
 public:
  explicit PhotoTask(const TrainOptions& o)
      : data_(once([data = o.data, labels = o.labels] { return open_photos(data, labels); })),
        bad_(std::make_shared<BadFiles>(o.max_bad, [](const std::string& what) {
          fmt::print(stderr, "laconic: warning: {} It is passed over (--max-bad).\n", what);
        })) {}

  std::unique_ptr<Workload> workload(const TrainOptions& o, const dist::Worker& worker) override {
    const std::shared_ptr<const PhotoDataset> data = data_.get();
    require<UsageError>(data->validation != nullptr, o.data,
                        " has no validation images (--data): give --data TRAIN,VAL, or a folder or pack with both");
    const PhotoTransform::Options training = view(o, true);
    const PhotoAugment& a = training.augment;
    ImageSamples samples{.name = data->name,
                         .classes = static_cast<int>(data->classes.size()),
                         .image = {3, training.size, training.size},
                         .train_size = data->train->size(),
                         .test_size = data->validation->size(),
                         .train = photo_reader(data->train, training, bad_, Bad::replaced),
                         .test = photo_reader(data->validation, view(o, false), bad_, Bad::left_out),
                         .content = fingerprints_.get()->first,
                         .sizes = fingerprints_.get()->second,
                         .augment = concat(a.crop, ",", a.flip, ",", a.brightness, ",", a.contrast, ",", a.saturation,
                                           ", size ", training.size, ", ", to_string(training.decoder)),
                         .train_name = [images = data->train](std::int64_t i) { return images->name(i); },
                         .test_name = [images = data->validation](std::int64_t i) { return images->name(i); }};
    ImageClassification::Options options = classification_options(o);
    options.eval_batch = o.batch;  // what fits in memory when training does here
    return std::make_unique<ImageClassification>(make_model(o, samples.classes), std::move(samples), worker.rank,
                                                 worker.size, options);
  }

  void begin(const TrainOptions& o) override { save_labels(o, data_.get()->classes); }

 private:
  Once<PhotoDataset> data_;
  Once<std::pair<std::uint64_t, std::uint64_t>> fingerprints_ =
      once([data = data_] { return std::pair(data.get()->fingerprint(), data.get()->sizes()); });
  std::shared_ptr<BadFiles> bad_;
};

}  // namespace

std::unique_ptr<Task> make_photo_task(const TrainOptions& o) { return std::make_unique<PhotoTask>(o); }

PictureInput photo_input(const TrainOptions& o) {
  const int size = image_size(o);
  return {{3, size, size},
          [transform = PhotoTransform(view(o, false))](std::span<const std::uint8_t> file, const std::string& name,
                                                       float* out) { transform(file, name, 0, 0, out); }};
}

}  // namespace laconic
