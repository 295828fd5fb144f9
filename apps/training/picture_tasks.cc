// Tasks of pictures: small images that are in memory, and photographs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "apps/training/task.h"
#include "core/base/parse.h"
#include "data/image_dataset.h"
#include "data/image_source.h"
#include "data/photo_transform.h"

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
  const bool digits = own == "mnist" || own == "fashion-mnist";
  return {image_dataset(digits ? (names_fashion(data) ? "fashion-mnist" : "mnist") : own), data};
}

/// What weights say of the pixels, a number a channel, at least `least`.
std::vector<float> numbers_in(const StateDict& weights, const char* name, std::size_t count, float least,
                              std::vector<float> otherwise) {
  const auto text = weights.texts().find(name);
  if (text == weights.texts().end()) return otherwise;
  std::vector<float> numbers;
  std::istringstream all(text->second);
  for (std::string number; std::getline(all, number, ',');) numbers.push_back(number_from<float>(number).value_or(NAN));
  require<DataError>(numbers.size() == count && std::ranges::all_of(numbers, [&](float x) { return x >= least; }),
                     "what the weights say of the pixels (", name, ") is not ", count, " number", count == 1 ? "" : "s",
                     " of that kind. The file is damaged, or of another model.");
  return numbers;
}

void require_fit(const ModelInfo& model, const ImageDataset& data, const std::string& where) {
  const Shape image{data.channels, data.height, data.width};
  require<UsageError>(model.input == image, "the model ", model.name, " takes images of ", model.input, ", but ", where,
                      " has ", image, " (--model, --data): choose a model and data that fit");
}

class ImageTask final : public Task {
 public:
  explicit ImageTask(const Where& where)
      : crops_and_flips_(where.kind.crops_and_flips), data_(once([where] { return where.kind.load(where.folder); })) {}

  std::unique_ptr<Workload> workload(const TrainOptions& o, const dist::Worker& worker) override {
    const std::shared_ptr<const ImageDataset> data = data_.get();
    require_fit(model_info(o.model), *data, o.data);
    ImageClassification::Options task = classification_options(o);
    if (crops_and_flips_ && !o.no_augment) task.augment = kPadCropFlip;
    return std::make_unique<ImageClassification>(make_model(o, data->classes), data, worker.rank, worker.size, task);
  }

  void begin(const TrainOptions& o) override { save_labels(o, data_.get()->class_names); }

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

PictureInput image_input(const Program& program, const TrainOptions& o, const StateDict& weights) {
  const Shape shape = model_info(o.model).input;
  require<UsageError>(shape.rank() == 3 && shape[1] == shape[2] && (shape[0] == 1 || shape[0] == 3), "the model ",
                      o.model, " takes ", shape, ", no pictures (--model): choose another");
  const auto channels = static_cast<std::size_t>(shape[0]), n = static_cast<std::size_t>(shape[1] * shape[2]);
  std::vector<float> mean, std;
  std::vector<std::string> names;
  if (!weights.texts().contains("mean") || !weights.texts().contains("std")) {  // saved by somebody else
    const Where where = where_is(o.data, program.images);
    const ImageDataset data = where.kind.load(where.folder);
    require_fit(model_info(o.model), data, o.data);
    mean = data.mean, std = data.std, names = data.class_names;
  }
  mean = numbers_in(weights, "mean", channels, -1e6f, mean), std = numbers_in(weights, "std", channels, 1e-6f, std);
  const PhotoTransform transform(
      {.size = static_cast<int>(shape[1]), .mean = {0, 0, 0}, .std = {1, 1, 1}, .margin = 1});
  return {shape,
          [=](std::span<const std::uint8_t> file, const std::string& name, float* out) {
            std::vector<float> rgb(3 * n);
            transform(file, name, 0, 0, rgb.data());
            for (std::size_t i = 0; i < channels * n; ++i) {
              // ITU-R 601-2, as PIL's convert("L")
              const float x = channels == 3 ? rgb[i] : 0.299f * rgb[i] + 0.587f * rgb[n + i] + 0.114f * rgb[2 * n + i];
              out[i] = (x - mean[i / n]) / std[i / n];
            }
          },
          names};
}

std::unique_ptr<Task> make_image_task(const Program& program, const TrainOptions& o) {
  return std::make_unique<ImageTask>(where_is(o.data, program.images));
}

// Photographs.

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
                        " has no validation images (--data): give --data TRAIN,VAL, or a folder, pack or archive with both");
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
