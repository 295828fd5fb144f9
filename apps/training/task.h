#pragma once
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "apps/training/options.h"
#include "dist/trainer/image_classification.h"

namespace laconic {

/// What an app trains, for all workers of this process and all of its runs (--repeat).
class Task {
 public:
  virtual ~Task() = default;
  /// One worker's part. Called by every worker on its own thread; data is read by the first. throws UsageError where
  /// model and data do not fit
  virtual std::unique_ptr<Workload> workload(const TrainOptions& options, const dist::Worker& worker) = 0;
  /// On rank 0 before the first step, where --save is this training's.
  virtual void begin(const TrainOptions&) {}
  /// Uses rank 0's workload when a run has ended: its weights are there, its trainer is not. A task that takes long
  /// asks `stop` now and then. The other ranks wait for its end.
  virtual void finish(const TrainOptions&, Workload&, const Stop&) {}
};

/// Training on images that are in memory. Saves the names of the classes, as the next one does.
std::unique_ptr<Task> make_image_task(const Program& program, const TrainOptions& options);
/// Training on photographs of any size, from folders, lists or packs.
std::unique_ptr<Task> make_photo_task(const TrainOptions& options);
/// Training language models on text, and letting them write when that is done (--generate).
std::unique_ptr<Task> make_language_task(const TrainOptions& options);

/// What all that classify images take from the command line.
ImageClassification::Options classification_options(const TrainOptions& options);
/// A new model of the zoo as the command line has it, of so many classes; 0: the model's own.
std::shared_ptr<Module> make_model(const TrainOptions& options, int classes);

/// What a picture is to a model.
struct PictureInput {
  Shape shape;  ///< [C, H, W]
  /// file : JPEG, PNG or PPM   ->   out : float of `shape`.   throws DataError as decode_image
  std::function<void(std::span<const std::uint8_t> file, const std::string& name, float* out)> read;
  std::vector<std::string> classes{};  ///< names, where data were read that know them
};
PictureInput photo_input(const TrainOptions& options);
/// The shorter side is made the model's, and the middle taken; grey where the model sees grey. Mean and deviation are
/// those that the weights were saved with, else those of --data, which is read then.
PictureInput image_input(const Program& program, const TrainOptions& options, const StateDict& weights);

/// --predict: prints the five most likely classes of each image, by the weights of --init or --resume. Names of classes
/// come from --labels, or labels.txt beside the weights, or the data's own.
/// throws UsageError, DataError   no such model, weights that do not fit it, an image that cannot be decoded
int predict(const Program& program, const TrainOptions& options);
/// Writes labels.txt into --save, where --predict finds the names of the classes; without names there is none then.
void save_labels(const TrainOptions& options, const std::vector<std::string>& names);

/// Something that several threads need and the first of them makes.
template <class T>
using Once = std::shared_future<std::shared_ptr<const T>>;
template <class Make>
auto once(Make make) {
  using T = std::invoke_result_t<Make>;
  return Once<T>(std::async(std::launch::deferred, [make] { return std::make_shared<const T>(make()); }).share());
}

}  // namespace laconic
