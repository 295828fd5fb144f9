#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/trainer/training_batches.h"
#include "dist/world.h"
#include "layers/metrics.h"

namespace laconic {

/// Trains any model on samples of any shape: classification, regression, sequences.
///
///   Supervised task(std::make_shared<Net>(), train, test, CrossEntropy(), worker,
///                   {.batch = 16, .metrics = {{"accuracy", accuracy}}});
///   Trainer(worker, task, {.epochs = 20, .lr = 0.05}).run();
class Supervised final : public Workload {
 public:
  /// The mean loss of a batch [1], recorded.
  using Loss = std::function<Tensor(Tensor prediction, const Tensor& target)>;
  struct Named {
    std::string name;
    Metric metric;
  };
  struct Options {
    std::int64_t batch = 32;  ///< B, per worker
    std::int64_t eval_batch = 250;
    bool shuffle = true;
    int data_threads = 1;
    std::uint64_t seed = 0;
    std::vector<Named> metrics{};  ///< measured in evaluations (EvalReport::metrics), the loss alone if there is none
    std::string name = "data";     ///< for messages
  };
  /// model : x [n, ...] -> predictions.   test : evaluations go over it, and draw other numbers than training does; may
  /// be empty or null
  /// throws DataError  there is nothing to train on
  Supervised(std::shared_ptr<Module> model, SharedDataset train, SharedDataset test, Loss loss,
             const dist::Worker& worker, const Options& options);

  Module& model() override { return *model_; }
  void set_device(Device device) override { batches_.set_device(device); }
  std::int64_t batch() const override { return o_.batch; }
  std::int64_t batches_per_epoch() const override { return batches_.per_epoch(); }
  Share share(std::int64_t epoch, std::int64_t batch) const override { return batches_.share(epoch, batch); }
  std::int64_t deal_rest(const DataPosition& position) override { return batches_.deal_rest(position); }
  void start(std::int64_t epoch, std::int64_t batch) override { batches_.start(epoch, batch); }
  Share load() override { return batches_.load(); }
  Tensor loss() override { return loss_((*model_)(batches_.loaded().x), batches_.loaded().y); }
  std::function<Tensor()> ghost_loss(std::int64_t samples) override;
  std::int64_t batches_held() const override { return batches_.held(); }
  EvalSums evaluate(const Stop& stop) override;
  std::vector<std::string> metrics() const override;
  std::string fingerprint() const override;
  void describe(RunInfo& info) const override;

 private:
  std::shared_ptr<Module> model_;
  SharedDataset train_, test_;
  Loss loss_;
  Options o_;
  TrainingBatches batches_;
  std::uint64_t content_;
};

}  // namespace laconic
