#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/state.h"
#include "dist/trainer/report.h"
#include "layers/module.h"

namespace laconic {

/// Some batches of an epoch that so many workers have trained.
struct Trained {
  int workers = 1;
  std::int64_t batches = 0;
  bool operator==(const Trained&) const = default;
};

/// Where a training is in its data, whatever the number of workers that go on.
struct DataPosition {
  std::int64_t epoch = 0;          ///< from 0
  std::vector<Trained> trained{};  ///< of that epoch, in this order; those of a number go on where the one before left
};

/// One worker's part of one micro-batch. Samples are images, or words of a text.
struct Share {
  std::int64_t samples = 0;         ///< of this worker; may be fewer, or 0, in the last step of an epoch
  std::int64_t global_samples = 0;  ///< of all workers
  std::int64_t first_sample = 0;    ///< position of this worker's first sample in the epoch's order; for a text, of its
                                    ///< first stream among those of all batches
  std::int64_t each = 0;            ///< worker k has the k-th so many of global_samples
};

/// Sums over evaluated samples (words of a text): they add up over batches and workers.
struct EvalSums {
  double samples = 0, loss = 0, wrong_top1 = 0, wrong_top5 = 0;
  std::vector<double> metrics{};  ///< of Workload::metrics()
};

/// Asked before each batch of an evaluation. Once it says true the evaluation ends, and nobody uses its sums.
using Stop = std::function<bool()>;

/// The thing that a trainer trains: a model, where its batches come from, what their loss is, and how well it does. One
/// object per worker: image_classification.h, language_modelling.h.
class Workload {
 public:
  virtual ~Workload() = default;
  virtual Module& model() = 0;
  /// Where the model is, from now on: batches are given there, and what goes from batch to batch is kept there. Comes
  /// before restore() and start(); without it, that is the CPU.
  virtual void set_device(Device) {}
  virtual std::int64_t batch() const = 0;              ///< samples per worker and micro-batch, but for short ones
  virtual std::int64_t batches_per_epoch() const = 0;  ///< the same on every worker
  /// How batch `batch` of that epoch is shared out.
  virtual Share share(std::int64_t epoch, std::int64_t batch) const = 0;
  /// Other numbers of workers have trained a part of an epoch: its rest is dealt out to this number. In that epoch
  /// share() and start() count batches of the rest. Returns how many there are; no sample of the epoch is in them that
  /// was trained, and none is missing. Comes before start().
  virtual std::int64_t deal_rest(const DataPosition& position) = 0;
  /// Positions the data: the next load() gives batch `batch` of `epoch` (both from 0; batch may be the epoch's number
  /// of batches: the next epoch's first).
  virtual void start(std::int64_t epoch, std::int64_t batch) = 0;
  /// Fetches the next micro-batch; at the end of an epoch the next one begins.
  virtual Share load() = 0;
  /// Forward pass of the loaded micro-batch in training mode: its mean loss [1], recorded. Only if it has samples.
  virtual Tensor loss() = 0;
  /// Makes a batch of so many samples without values, on the ghost device; what it returns is loss() of that batch: for
  /// the memory that a step takes.
  virtual std::function<Tensor()> ghost_loss(std::int64_t samples) = 0;
  /// Batches that lie in the device's memory at once: the loaded one, and those that are prepared ahead.
  virtual std::int64_t batches_held() const { return 1; }
  /// The last loss() makes no update, and is to leave no trace in what goes from batch to batch.
  virtual void pass_over() {}
  /// Evaluates this worker's share of the test set with the model as it is, in evaluation mode; of a validation set if
  /// the test set is kept for the end.
  virtual EvalSums evaluate(const Stop& stop) = 0;
  virtual bool has_top5() const { return false; }
  virtual bool measures_perplexity() const { return false; }  ///< instead of errors
  /// Names of its own measures, which it has instead of errors.
  virtual std::vector<std::string> metrics() const { return {}; }
  virtual bool has_test_for_the_end() const { return false; }
  virtual EvalSums evaluate_at_the_end(const Stop&) { return {}; }
  /// Names data and options that all workers must agree on, one a line.
  virtual std::string fingerprint() const = 0;
  /// Fills in what a run's log says of the data: its name, how many samples, words per step, words not seen.
  virtual void describe(RunInfo& info) const = 0;
  /// Adds texts to saved weights: what whoever has them alone must know of the data. StateDict::set_text
  virtual void describe_weights(StateDict&) const {}
  /// What goes from batch to batch on this worker besides the model: nothing, but for a language model its hidden
  /// state. restore() comes before start(), which keeps it unless an epoch begins there.
  virtual void save(StateDict&) const {}
  virtual void restore(const StateDict&) {}
};

}  // namespace laconic
