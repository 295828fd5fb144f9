#pragma once
#include <memory>
#include <optional>

#include "data/text.h"
#include "data/text_blocks.h"
#include "dist/trainer/upload.h"
#include "dist/trainer/workload.h"

namespace laconic {

/// Trains a language model that keeps no state on blocks of a text: a step reads B blocks of T tokens per worker, each
/// from anywhere, and its loss is the mean cross entropy of the tokens that follow. Samples are tokens.
///   an epoch      so many steps as read about as many tokens as the text has; blocks are drawn by seed, epoch and
///                 step, so that some come twice and others not at all, as nanoGPT has it
///   other numbers of workers (deal_rest): go on until the epoch has read as many tokens; without shuffling they share
///                 what nobody has read
///   evaluation    sums over all tokens of valid but its first, cut into blocks that do not overlap; perplexity is exp
///                 of their mean. test likewise at the end, where a text has one
/// The model: tokens i64 [T, B] -> logits [T B, vocabulary], row t B + b behind x[t, b].
class BlockLanguageModelling final : public Workload {
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
  void set_device(Device device) override;
  std::int64_t batch() const override { return o_.batch; }
  std::int64_t batches_per_epoch() const override { return per_epoch_; }
  Share share(std::int64_t epoch, std::int64_t batch) const override;
  std::int64_t deal_rest(const DataPosition& position) override;
  void start(std::int64_t epoch, std::int64_t batch) override;
  Share load() override;
  Tensor loss() override;
  std::function<Tensor()> ghost_loss(std::int64_t blocks) override;
  EvalSums evaluate(const Stop& stop) override { return evaluate(data_->valid, stop); }
  bool has_test_for_the_end() const override { return !data_->test.empty(); }
  EvalSums evaluate_at_the_end(const Stop& stop) override { return evaluate(data_->test, stop); }
  bool measures_perplexity() const override { return true; }
  std::string fingerprint() const override;
  void describe(RunInfo& info) const override;
  void describe_weights(StateDict& weights) const override;

 private:
  EvalSums evaluate(const std::vector<std::int32_t>& text, const Stop& stop) const;
  TextBlocks::Options blocks() const {
    return {.batch = o_.batch, .length = o_.block, .ranks = workers_, .rank = rank_};
  }
  std::int64_t batches_of(std::int64_t epoch) const { return epoch == rest_epoch_ ? rest_batches_ : per_epoch_; }

  std::shared_ptr<Module> model_;
  std::shared_ptr<const TextDataset> data_;
  int rank_, workers_;
  Options o_;
  std::uint64_t data_fingerprint_;
  TextBlocks train_;
  std::int64_t per_epoch_;
  std::optional<TextBlocks> rest_;  // of rest_epoch_, without shuffling: this worker's blocks
  std::int64_t rest_epoch_ = -1, rest_batches_ = 0, rest_first_ = 0;  // batches of that epoch that others have trained
  std::int64_t epoch_ = 0, next_ = 0;                                 // the batch that load() gives
  std::unique_ptr<Upload> upload_;
  Device device_ = kCpu;
  Tensor x_, next_tokens_;
};

}  // namespace laconic
