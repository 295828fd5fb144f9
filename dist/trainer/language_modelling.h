#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/text.h"
#include "data/text_blocks.h"
#include "dist/trainer/upload.h"
#include "dist/trainer/workload.h"
#include "layers/models/language_model.h"

namespace laconic {

/// Training on a text, whatever is read of it in a step: B rows of T tokens per worker; the loss is the mean cross
/// entropy of the tokens that follow them. Samples are tokens, also called words. Rows are what dropout counts: those
/// of each batch of an epoch are others, so that micro-batches differ.
///   evaluation    sums over all tokens of valid but its first; perplexity is exp of their mean. test
///                 in the same way at the end, where a text has one
class TextWorkload : public Workload {
 public:
  void set_device(Device device) override;
  std::int64_t batch() const override { return rows_; }
  void start(std::int64_t epoch, std::int64_t batch) override;
  Share load() override;
  Share share(std::int64_t epoch, std::int64_t batch) const override;
  std::function<Tensor()> ghost_loss(std::int64_t rows) override;
  EvalSums evaluate(const Stop& stop) override { return evaluate_on(data_->valid, stop); }
  bool has_test_for_the_end() const override { return !data_->test.empty(); }
  EvalSums evaluate_at_the_end(const Stop& stop) override { return evaluate_on(data_->test, stop); }
  bool measures_perplexity() const override { return true; }
  std::string fingerprint() const override;
  void describe(RunInfo& info) const override;
  void describe_weights(StateDict& weights) const override;

 protected:
  /// x : i64 [T, rows]   next : i64 [T rows], row t rows + b: what follows x[t, b]
  struct Words {
    Tensor x, next;
  };
  TextWorkload(std::shared_ptr<const TextDataset> data, int rank, int workers, std::int64_t rows, std::int64_t length)
      : data_(std::move(data)),
        rank_(rank),
        workers_(workers),
        rows_(rows),
        length_(length),
        data_fingerprint_(laconic::fingerprint(*data_)),
        upload_(std::make_unique<Upload>(device_)) {}

  virtual std::int64_t batches_of(std::int64_t epoch) const = 0;
  virtual Words read(std::int64_t epoch, std::int64_t batch) const = 0;  ///< in host memory
  virtual EvalSums evaluate_on(const TokenSequence& text, const Stop& stop) const = 0;
  /// T of a batch: the last one of an epoch may have fewer.
  virtual std::int64_t length_of(std::int64_t /*epoch*/, std::int64_t /*batch*/) const { return length_; }
  /// Batches of that epoch that other numbers of workers have trained, as dropout counts them.
  virtual std::int64_t batches_before(std::int64_t /*epoch*/) const { return 0; }
  /// Lists the options of its own, one a line.
  virtual std::string settings() const = 0;

  std::shared_ptr<const TextDataset> data_;
  const int rank_, workers_;
  const std::int64_t rows_, length_;
  Device device_ = kCpu;
  Words loaded_;

 private:
  const std::uint64_t data_fingerprint_;
  std::unique_ptr<Upload> upload_;
  std::int64_t epoch_ = 0, next_ = 0;  // the batch that load() gives
};

/// Trains a language model by truncated backpropagation through time: a step reads the next T words of B streams per
/// worker, T = `bptt`.
///   hidden state  goes from step to step, zero at the start of an epoch; of each worker, part of checkpoints
///   other numbers of workers (deal_rest): what their streams have not read, one after the other, is a text that is cut
///                 anew for the rest of the epoch; words that the cut leaves over at its end are not read, as in any
///                 epoch
///   evaluation    reads `eval_rows` streams whatever the number of workers
///   source        Zaremba et al. 2014, section 4.1
class LanguageModelling final : public TextWorkload {
 public:
  struct Options {
    std::int64_t batch = 20;      ///< B, streams per worker
    std::int64_t bptt = 35;       ///< T, words of each stream in one step; the last step of an epoch may have fewer
    std::int64_t eval_rows = 20;  ///< streams that evaluation reads
  };
  /// The text is shared by all workers of a process.
  /// throws UsageError  an option is below 1
  ///        DataError   the training text has fewer words than one step of all workers needs
  ///        ShapeError  the model's vocabulary is not the text's
  LanguageModelling(std::shared_ptr<models::LanguageModel> model, std::shared_ptr<const TextDataset> data, int rank,
                    int workers, const Options& options);

  models::LanguageModel& model() override { return *model_; }
  std::int64_t batches_per_epoch() const override { return batches_of(streams_); }
  std::int64_t deal_rest(const DataPosition& position) override;
  void start(std::int64_t epoch, std::int64_t batch) override;
  Tensor loss() override;
  void pass_over() override { state_ = before_; }
  void save(StateDict& state) const override;
  void restore(const StateDict& state) override;

 private:
  std::int64_t batches_of(std::int64_t epoch) const override { return batches_of(streams(epoch)); }
  std::int64_t batches_of(const TextStreams& streams) const { return (streams.length() + length_ - 1) / length_; }
  Words read(std::int64_t epoch, std::int64_t batch) const override;
  std::int64_t length_of(std::int64_t epoch, std::int64_t batch) const override;
  EvalSums evaluate_on(const TokenSequence& text, const Stop& stop) const override;
  std::string settings() const override;
  const TextStreams& streams(std::int64_t epoch) const { return rest_ && epoch == rest_epoch_ ? *rest_ : streams_; }

  std::shared_ptr<models::LanguageModel> model_;
  const std::int64_t eval_rows_;
  TextStreams streams_;
  TokenSequence rest_words_;
  std::optional<TextStreams> rest_;  // of rest_words_, in one epoch
  std::int64_t rest_epoch_ = 0;
  LSTM::State state_, before_;  // behind the last loss, and before it
};

/// Trains a language model that keeps no state on blocks of a text: a step reads B blocks of T tokens per worker, each
/// from anywhere.
///   an epoch      has the steps that read about as many tokens as the text has; blocks are drawn by seed, epoch and
///                 step, so that some come twice and others not at all, as nanoGPT has it
///   other numbers of workers (deal_rest): go on until the epoch has read as many tokens; without shuffling they share
///                 what nobody has read
///   evaluation    reads blocks that do not overlap
/// The model: tokens i64 [T, B] -> logits [T B, vocabulary], row t B + b behind x[t, b].
class BlockLanguageModelling final : public TextWorkload {
 public:
  struct Options {
    std::int64_t batch = 12;  ///< B, blocks per worker
    std::int64_t block = 64;  ///< T
    bool shuffle = true;      ///< false: blocks in the text's order, each worker's part of it
    std::uint64_t seed = 0;
    std::string model{};  ///< what else of the model a resumed training must have alike
  };
  /// The text is shared by all workers of a process.
  /// throws UsageError  an option is below 1
  ///        DataError   the training text has fewer tokens than one step of all workers needs, valid none to foretell
  BlockLanguageModelling(std::shared_ptr<Module> model, std::shared_ptr<const TextDataset> data, int rank, int workers,
                         const Options& options);

  Module& model() override { return *model_; }
  std::int64_t batches_per_epoch() const override { return per_epoch_; }
  std::int64_t deal_rest(const DataPosition& position) override;
  Tensor loss() override;

 private:
  std::int64_t batches_of(std::int64_t epoch) const override {
    return epoch == rest_epoch_ ? rest_batches_ : per_epoch_;
  }
  std::int64_t batches_before(std::int64_t epoch) const override { return epoch == rest_epoch_ ? rest_first_ : 0; }
  Words read(std::int64_t epoch, std::int64_t batch) const override;
  EvalSums evaluate_on(const TokenSequence& text, const Stop& stop) const override;
  std::string settings() const override;
  TextBlocks::Options blocks() const { return {.batch = rows_, .length = length_, .ranks = workers_, .rank = rank_}; }

  std::shared_ptr<Module> model_;
  Options o_;
  TextBlocks train_;
  std::int64_t per_epoch_;
  std::optional<TextBlocks> rest_;  // of rest_epoch_, without shuffling: this worker's blocks
  std::int64_t rest_epoch_ = -1, rest_batches_ = 0, rest_first_ = 0;
};

}  // namespace laconic
