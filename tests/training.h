#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/trainer/image_classification.h"
#include "dist/trainer/trainer.h"
#include "layers/layers.h"
#include "tests/on_ranks.h"

namespace laconic {

/// 3 x 8 x 8 images of 7 classes: a bright square whose place and colour tell the class, and noise.
std::shared_ptr<const ImageDataset> tiny_images(std::int64_t train, std::int64_t test);

/// Models for those images.
std::shared_ptr<Module> perceptron();     ///< with dropout
std::shared_ptr<Module> convolutional();  ///< with dropout
std::shared_ptr<Module> normalized();     ///< with batch norm and dropout
std::shared_ptr<Module> mixed();          ///< convolution, batch norm, a larger linear layer, one used twice, dropout

/// Reads the pixels as words: an embedding tied to the output layer, an LSTM and a GRU over six words; the classes are
/// the first seven words.
std::shared_ptr<Module> reading();

/// One training run of N workers that are threads, small enough for a test: two epochs of 150 images, audited after
/// every step. Workers keep their own models at the end.
struct Recipe {
  explicit Recipe(std::function<std::shared_ptr<Module>()> model = perceptron, int workers = 1);
  Recipe(const Recipe&);
  ~Recipe();
  Recipe& operator=(const Recipe&) = default;

  /// A method that sends a choice: of parameters from so many bytes on, such a share if it has one.
  void choose(const char* sync, const char* from, const char* density,
              std::vector<std::pair<std::string, std::string>> settings = {});
  /// As the trainer takes it.
  std::shared_ptr<const dist::Method> method() const { return dist::method(sync, settings); }

  std::function<std::shared_ptr<Module>()> model;
  int workers;
  int servers = 0;                          ///< dedicated ones
  std::optional<dist::LinkOptions> link{};  ///< emulated between the workers, which are not told
  std::shared_ptr<const ImageDataset> data;
  ImageClassification::Options task;
  std::string sync = "allreduce";                             ///< a name of dist::methods()
  std::vector<std::pair<std::string, std::string>> settings;  ///< of it
  TrainerOptions trainer;
  /// May stand between the trainer and its task: the loss of one rank that is not a number, a worker that throws.
  std::function<std::unique_ptr<Workload>(std::unique_ptr<Workload>, const dist::Worker&)> wrap;
  std::function<void(TrainerOptions&, int rank)> per_rank;
};

struct Outcome {
  std::vector<std::vector<float>> parameters;                      ///< by rank, in arena order
  std::vector<std::map<std::string, std::vector<float>>> buffers;  ///< by rank
  std::vector<StepReport> steps;
  std::vector<EvalReport> evals;
  std::vector<RanksReport> ranks;
  std::vector<dist::Receipt> plans;  ///< the one that was chosen, if one was
  RunSummary summary;
};

/// In arena order.
std::vector<float> parameters_of(const Trainer& trainer);

/// Runs it, from the weights to the end.
Outcome train(const Recipe& recipe);

/// A workload that hands everything on to another one: a test overrides what it needs.
class Passing : public Workload {
 public:
  explicit Passing(std::unique_ptr<Workload> inner) : inner_(std::move(inner)) {}
  Module& model() override { return inner_->model(); }
  void set_device(Device device) override { inner_->set_device(device); }
  std::function<Tensor()> ghost_loss(std::int64_t samples) override { return inner_->ghost_loss(samples); }
  std::int64_t batch() const override { return inner_->batch(); }
  std::int64_t batches_per_epoch() const override { return inner_->batches_per_epoch(); }
  Share share(std::int64_t epoch, std::int64_t batch) const override { return inner_->share(epoch, batch); }
  std::int64_t deal_rest(const DataPosition& position) override { return inner_->deal_rest(position); }
  void start(std::int64_t epoch, std::int64_t batch) override { inner_->start(epoch, batch); }
  Share load() override { return inner_->load(); }
  Tensor loss() override { return inner_->loss(); }
  void pass_over() override { inner_->pass_over(); }
  EvalSums evaluate(const Stop& stop) override { return inner_->evaluate(stop); }
  bool has_top5() const override { return inner_->has_top5(); }
  bool measures_perplexity() const override { return inner_->measures_perplexity(); }
  bool has_test_for_the_end() const override { return inner_->has_test_for_the_end(); }
  EvalSums evaluate_at_the_end(const Stop& stop) override { return inner_->evaluate_at_the_end(stop); }
  std::string fingerprint() const override { return inner_->fingerprint(); }
  void describe(RunInfo& info) const override { inner_->describe(info); }
  void save(StateDict& state) const override { inner_->save(state); }
  void restore(const StateDict& state) override { inner_->restore(state); }

 private:
  std::unique_ptr<Workload> inner_;
};

/// The largest |a - b| over the largest |a|.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace laconic
