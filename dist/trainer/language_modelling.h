#pragma once
#include <memory>
#include <optional>

#include "data/text.h"
#include "dist/trainer/upload.h"
#include "dist/trainer/workload.h"
#include "layers/models/language_model.h"

namespace laconic {

/// Trains a language model by truncated backpropagation through time: a step reads the next T words of B streams per
/// worker, T = `bptt`, and its loss is the mean cross entropy of the words that follow them. Samples are words.
///   hidden state  goes from step to step, zero at the start of an epoch; of each worker, part of checkpoints
///   other numbers of workers (deal_rest): what their streams have not read, one after the other, is a text that is cut
///                 anew for the rest of the epoch; words that the cut leaves over at its end are not read, as in any
///                 epoch
///   evaluation    sums over all words of valid but its first, read as `eval_rows` streams whatever the number of
///                 workers; perplexity is exp of their mean. test likewise, at the end
///   source        Zaremba et al. 2014, section 4.1
class LanguageModelling final : public Workload {
 public:
  struct Options {
    std::int64_t batch = 20;  ///< B, streams per worker
    std::int64_t bptt = 35;   ///< T, words of each stream in one step; the last step of an epoch may have fewer
    std::int64_t eval_rows = 20;  ///< streams that evaluation reads
  };
  /// The text is shared by all workers of a process.
  /// throws UsageError  an option is below 1
  ///        DataError   the training text has fewer words than one step of all workers needs
  ///        ShapeError  the model's vocabulary is not the text's
  LanguageModelling(std::shared_ptr<models::LanguageModel> model, std::shared_ptr<const TextDataset> data, int rank,
                    int workers, const Options& options);

  models::LanguageModel& model() override { return *model_; }
  void set_device(Device device) override;
  std::int64_t batch() const override { return o_.batch; }
  std::int64_t batches_per_epoch() const override;
  Share share(std::int64_t epoch, std::int64_t batch) const override;
  std::int64_t deal_rest(const DataPosition& position) override;
  void start(std::int64_t epoch, std::int64_t batch) override;
  Share load() override;
  Tensor loss() override;
  std::function<Tensor()> ghost_loss(std::int64_t streams) override;
  void pass_over() override { state_ = before_; }
  EvalSums evaluate(const Stop& stop) override { return evaluate(data_->valid, stop); }
  bool has_test_for_the_end() const override { return !data_->test.empty(); }
  EvalSums evaluate_at_the_end(const Stop& stop) override { return evaluate(data_->test, stop); }
  bool measures_perplexity() const override { return true; }
  std::string fingerprint() const override;
  void describe(RunInfo& info) const override;
  void describe_weights(StateDict& weights) const override;
  void save(StateDict& state) const override;
  void restore(const StateDict& state) override;

 private:
  EvalSums evaluate(const std::vector<std::int32_t>& text, const Stop& stop) const;
  const TextStreams& streams(std::int64_t epoch) const { return rest_ && epoch == rest_epoch_ ? *rest_ : streams_; }
  std::int64_t batches_of(const TextStreams& streams) const { return (streams.length() + o_.bptt - 1) / o_.bptt; }

  std::shared_ptr<models::LanguageModel> model_;
  std::shared_ptr<const TextDataset> data_;
  int rank_, workers_;
  Options o_;
  std::uint64_t data_fingerprint_;
  TextStreams streams_;
  std::vector<std::int32_t> rest_words_;
  std::optional<TextStreams> rest_;  // of rest_words_, in one epoch
  std::int64_t rest_epoch_ = 0, epoch_ = 0;
  Device device_ = kCpu;
  std::unique_ptr<Upload> upload_;
  std::int64_t next_ = 0;  // batch of the epoch that load() gives
  TextStreams::Segment segment_;
  LSTM::State state_, before_;  // behind the last loss, and before it
};

}  // namespace laconic
