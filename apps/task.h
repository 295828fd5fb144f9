#pragma once
#include <future>
#include <memory>
#include <string>
#include <type_traits>

#include "apps/options.h"
#include "dist/trainer/image_classification.h"

namespace laconic {

/// What an app trains, for all workers of this process and all of its runs (--repeat).
class Task {
 public:
  virtual ~Task() = default;
  /// One worker's part. Called by every worker on its own thread; data is read by the first. throws UsageError where
  /// model and data do not fit
  virtual std::unique_ptr<Workload> workload(const TrainOptions& options, int rank, int workers) = 0;
  /// What rank 0's workload is good for when a run has ended, on the main thread: its weights are there, its trainer is
  /// not.
  virtual void finish(const TrainOptions&, Workload&) {}
};

/// Training on images that are in memory.
std::unique_ptr<Task> make_image_task(const Program& program, const TrainOptions& options);
/// Training on photographs of any size, from folders, lists or packs. At the end writes labels.txt into --save, the
/// names of the classes, where --predict finds them.
std::unique_ptr<Task> make_photo_task(const TrainOptions& options);
/// Training language models on text, and letting them write when that is done (--generate).
std::unique_ptr<Task> make_language_task(const TrainOptions& options);

/// What all that classify images take from the command line.
ImageClassification::Options classification_options(const TrainOptions& options);
/// A new model of the zoo as the command line has it, of so many classes; 0: the model's own.
std::shared_ptr<Module> make_model(const TrainOptions& options, int classes);

/// --predict: prints the five most likely classes of each image, by the weights of --init or --resume. Names of classes
/// come from --labels, or labels.txt beside the weights, or the data's own.
/// throws UsageError, DataError   no such model, weights that do not fit it, an image that cannot be decoded
int predict(const TrainOptions& options);

/// Something that several threads need and the first of them makes.
template <class T>
using Once = std::shared_future<std::shared_ptr<const T>>;
template <class Make>
auto once(Make make) {
  using T = std::invoke_result_t<Make>;
  return Once<T>(std::async(std::launch::deferred, [make] { return std::make_shared<const T>(make()); }).share());
}

}  // namespace laconic
