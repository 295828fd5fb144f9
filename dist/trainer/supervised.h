#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/trainer/sample_workload.h"
#include "dist/world.h"
#include "layers/loss.h"

namespace laconic {

/// Trains any model on samples of any shape: classification, regression, sequences.
///
///   Supervised task(std::make_shared<Net>(), train, test, CrossEntropy(), worker,
///                   {.batch = 16, .metrics = {{"accuracy", accuracy}}});
///   Trainer(worker, task, {.epochs = 20, .lr = 0.05}).run();
class Supervised final : public SampleWorkload {
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

  Tensor loss() override { return loss_((*model_)(loaded().x), loaded().y); }
  std::function<Tensor()> ghost_loss(std::int64_t samples) override;
  EvalSums evaluate(const Stop& stop) override;
  std::vector<std::string> metrics() const override;
  std::string fingerprint() const override;
  void describe(RunInfo& info) const override;

 private:
  SharedDataset train_, test_;
  Loss loss_;
  Options o_;
  std::uint64_t content_;
};

}  // namespace laconic
