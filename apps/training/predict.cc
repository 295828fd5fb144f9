#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "apps/training/device_options.h"
#include "apps/training/task.h"
#include "core/base/atomic_file.h"
#include "core/base/parallel.h"
#include "core/parameter.h"
#include "data/image_codec.h"
#include "data/image_source.h"
#include "dist/trainer/checkpoint.h"
#include "layers/foreign_weights.h"

namespace laconic {
namespace {

/// Outputs of the last layer, as the weights have them.
int classes_in(const Module& model, const StateDict& weights, int otherwise) {
  for (const auto& [name, parameter] : model.named_parameters())
    if (const Tensor* found = weights.find(name); found && parameter->info.output && found->shape().rank() > 0)
      return static_cast<int>(std::clamp<std::int64_t>(found->shape()[0], 1, 1 << 20));
  return otherwise;
}

/// Returns --labels, else labels.txt beside the weights (a checkpoint is a folder, and the file lies beside that), else
/// what lies beside the data.
std::string labels_for(const TrainOptions& o, const std::string& weights) {
  namespace fs = std::filesystem;
  if (!o.labels.empty()) return o.labels;
  std::error_code ignored;
  const fs::path file = fs::path(weights).parent_path() / (o.resume ? "../labels.txt" : "labels.txt");
  if (fs::is_regular_file(file, ignored)) return file.string();
  return labels_beside(fs::is_directory(o.data, ignored) ? fs::path(o.data).string()
                                                         : fs::path(o.data).parent_path().string());
}

/// The model that a checkpoint is evaluated as. Its workers may hold others: each has statistics of its own.
StateDict weights_of(const std::string& checkpoint) {
  const Manifest manifest = CheckpointStore::read_manifest(checkpoint);
  const std::string joint = CheckpointStore(std::filesystem::path(checkpoint).parent_path()).weights_path();
  std::error_code ignored;
  if (std::filesystem::is_regular_file(joint, ignored) && sum_of_file(joint) == manifest.weights)
    return load_safetensors(joint);
  CheckpointStore::verify(checkpoint, manifest, 0);
  if (manifest.workers > 1)
    fmt::print(stderr, "laconic: note: {} is not this checkpoint's: predicts by what worker 0 of {} held\n", joint,
               manifest.workers);
  return CheckpointStore::read_rank(checkpoint, 0).part("model/");
}

struct FoundWeights {
  StateDict weights;
  std::string where;  ///< a folder ends in "/"
};

/// Those of --init or --resume. Unless --model was given the model is theirs from now on.
FoundWeights weights_to_go_by(const Program& program, TrainOptions& o) {
  const auto take_model_of = [&](const std::map<std::string, std::string>& texts) {
    const std::string of = model_of(texts);
    if (!o.model_given && std::ranges::count(program.models, of) > 0) o.model = of;
  };
  if (o.resume) {
    const std::string where = CheckpointStore::newest(o.resume_path.empty() ? o.trainer.save : o.resume_path);
    StateDict weights = weights_of(where);
    take_model_of(weights.texts());
    return {std::move(weights), where + "/"};
  }
  const WeightsFile file(o.trainer.init);
  take_model_of(file.texts());
  auto [weights, notes] = weights_for(*make_model(o, 0), file, o.model);
  for (const std::string& note : notes) fmt::print(stderr, "laconic: note: {}\n", note);
  std::error_code ignored;
  return {std::move(weights), o.trainer.init + (std::filesystem::is_directory(o.trainer.init, ignored) ? "/" : "")};
}

}  // namespace

int predict(const Program& program, const TrainOptions& options) {
  TrainOptions o = options;
  const NoGrad no_grad;
  auto [weights, where] = weights_to_go_by(program, o);
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

  const PictureInput input =
      program.reads == Program::Reads::photographs ? photo_input(o) : image_input(program, o, weights);
  const Shape& image = input.shape;
  std::vector<std::string> names = input.classes;
  if (const std::string file = labels_for(o, where); !file.empty()) {
    const std::vector<std::string> read = read_labels(file);
    const bool fits = read.size() == static_cast<std::size_t>(classes);
    require<DataError>(fits || o.labels.empty(), file, " names ", read.size(), " classes, but the weights have ",
                       classes, ". Name another with --labels.");
    if (fits)
      names = read;
    else
      fmt::print(stderr, "laconic: note: {} names {} classes, and the weights have {}: it is passed over\n", file,
                 read.size(), classes);
  }
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  std::vector<std::uint8_t> file;
  for (const std::string& path : o.predict) {
    Tensor x = Tensor::empty({1, image[0], image[1], image[2]});
    read_image_file(path, file);
    input.read(file, path, x.data<float>());
    const Tensor there = Tensor::empty(x.shape(), DType::f32, device);
    there.copy_from(x);
    const std::vector<float> logits = (*model)(there).to_vector();
    require<DataError>(std::ranges::all_of(logits, [](float x) { return std::isfinite(x); }), path,
                       ": the model answers with numbers that are not finite. Are the weights, or what they say of the "
                       "pixels, damaged?");
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

void save_labels(const TrainOptions& o, const std::vector<std::string>& names) {
  if (o.trainer.save.empty()) return;
  const std::string file = o.trainer.save + "/labels.txt";
  std::error_code ignored;
  if (names.empty()) {
    if (!o.resume) std::filesystem::remove(file, ignored);  // an earlier training's
    return;
  }
  AtomicFile out(file);
  for (const std::string& name : names) out.write(name + "\n");
  out.commit();
}

}  // namespace laconic
