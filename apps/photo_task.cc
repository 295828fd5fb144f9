#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/device_options.h"
#include "apps/task.h"
#include "core/atomic_file.h"
#include "core/parallel.h"
#include "core/parameter.h"
#include "data/image_source.h"
#include "dist/trainer/checkpoint.h"

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

  std::unique_ptr<Workload> workload(const TrainOptions& o, int rank, int workers) override {
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
                                           ", size ", training.size, ", ", to_string(training.decoder))};
    ImageClassification::Options options = classification_options(o);
    options.eval_batch = o.batch;  // what fits in memory when training does here
    return std::make_unique<ImageClassification>(make_model(o, samples.classes), std::move(samples), rank, workers,
                                                 options);
  }

  void finish(const TrainOptions& o, Workload&) override {
    if (o.trainer.save.empty()) return;
    AtomicFile out(o.trainer.save + "/labels.txt");
    for (const std::string& name : data_.get()->classes) out.write(name + "\n");
    out.commit();
  }

 private:
  Once<PhotoDataset> data_;
  Once<std::pair<std::uint64_t, std::uint64_t>> fingerprints_ =
      once([data = data_] { return std::pair(data.get()->fingerprint(), data.get()->sizes()); });
  std::shared_ptr<BadFiles> bad_;
};

/// Outputs of the last layer, as the weights have them.
int classes_in(const Module& model, const StateDict& weights, int otherwise) {
  for (const auto& [name, parameter] : model.named_parameters())
    if (const Tensor* found = weights.find(name); found && parameter->info.output && found->shape().rank() > 0)
      return static_cast<int>(std::clamp<std::int64_t>(found->shape()[0], 1, 1 << 20));
  return otherwise;
}

std::string labels_for(const TrainOptions& o, const std::string& weights) {
  namespace fs = std::filesystem;
  if (!o.labels.empty()) return o.labels;
  std::error_code ignored;
  const fs::path beside = fs::path(weights).parent_path();
  for (const fs::path& folder : {beside, beside / ".."})
    if (const fs::path file = folder / "labels.txt"; fs::is_regular_file(file, ignored)) return file.string();
  return labels_beside(fs::is_directory(o.data, ignored) ? fs::path(o.data).string()
                                                         : fs::path(o.data).parent_path().string());
}

}  // namespace

std::unique_ptr<Task> make_photo_task(const TrainOptions& o) { return std::make_unique<PhotoTask>(o); }

int predict(const TrainOptions& o) {
  const NoGrad no_grad;
  std::string where = o.trainer.init;
  StateDict weights;
  if (o.resume) {
    where = CheckpointStore::newest(o.resume_path.empty() ? o.trainer.save : o.resume_path);
    CheckpointStore::verify(where, CheckpointStore::read_manifest(where), 0);
    weights = CheckpointStore::read_rank(where, 0).part("model/");
    where += "/";  // a folder
  } else {
    weights = load_safetensors(where);
  }
  const int classes = classes_in(*make_model(o, 0), weights, model_info(o.model).classes);
  const std::shared_ptr<Module> model = make_model(o, classes);
  model->initialize(0);
  load_weights(*model, weights, where, o.model);
  const Device device = device_named(o.device);
  set_matmul_precision(checked_precision(o.precision, o.device, "--precision"));
  const ParameterArena arena(model->parameters(), device);
  model->to(device);
  model->eval();
  if (o.threads > 0) set_kernel_threads(o.threads);

  std::vector<std::string> names;
  if (const std::string file = labels_for(o, where); !file.empty()) {
    names = read_labels(file);
    require<DataError>(names.size() == static_cast<std::size_t>(classes), file, " names ", names.size(),
                       " classes, but the weights have ", classes, ". Name another with --labels.");
  }
  const PhotoTransform transform(view(o, false));
  const int size = image_size(o);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::vector<std::uint8_t> file;
  for (const std::string& path : o.predict) {
    Tensor x = Tensor::empty({1, 3, size, size});
    read_image_file(path, file);
    transform(file, path, 0, 0, x.data<float>());
    const Tensor there = Tensor::empty(x.shape(), DType::f32, device);
    there.copy_from(x);
    const std::vector<float> logits = (*model)(there).to_vector();
    std::vector<std::size_t> order(logits.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t best = std::min<std::size_t>(5, order.size());
    std::partial_sort(
        order.begin(), order.begin() + static_cast<std::ptrdiff_t>(best), order.end(),
        [&](std::size_t a, std::size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
    double sum = 0;
    for (const float v : logits) sum += std::exp(static_cast<double>(v) - static_cast<double>(logits[order[0]]));
    if (!o.json) fmt::print("{}\n", path);
    nlohmann::ordered_json likely = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < best; ++i) {
      const std::size_t c = order[i];
      const double p = std::exp(static_cast<double>(logits[c]) - static_cast<double>(logits[order[0]])) / sum;
      const std::string name = names.empty() ? fmt::format("class {}", c) : names[c];
      if (!o.json) fmt::print("  {:5.1f} %  {}\n", 100 * p, name);
      likely.push_back({{"class", c}, {"name", name}, {"probability", p}});
    }
    all.push_back({{"image", path}, {"likely", likely}});
  }
  if (o.json)
    fmt::print("{}\n", nlohmann::ordered_json{{"predictions", all}}.dump(
                           -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  return 0;
}

}  // namespace laconic
