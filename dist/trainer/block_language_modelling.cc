#include "dist/trainer/block_language_modelling.h"

#include <algorithm>

#include "core/ops/losses.h"
#include "data/input_file.h"
#include "layers/loss.h"
#include "layers/models/zoo.h"

namespace laconic {
namespace {

/// A batch in the model's order.
struct TimeFirst {
  Tensor x, next;  ///< i64 [T, B]; [T B], row t B + b
};

TimeFirst time_first(const TextBlocks::Batch& batch) {
  const std::int64_t B = batch.x.dim(0), T = batch.x.dim(1);
  const TimeFirst turned{Tensor::empty({T, B}, DType::i64), Tensor::empty({T * B}, DType::i64)};
  for (const auto& [to, from] : {std::pair{turned.x, batch.x}, std::pair{turned.next, batch.next}})
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t t = 0; t < T; ++t) to.data<std::int64_t>()[t * B + b] = from.data<std::int64_t>()[b * T + t];
  return turned;
}

constexpr std::int64_t kMostBatches = std::int64_t{1} << 32;  // of an epoch

}  // namespace

BlockLanguageModelling::BlockLanguageModelling(std::shared_ptr<Module> model, std::shared_ptr<const TextDataset> data,
                                               int rank, int workers, const Options& options)
    : model_(std::move(model)),
      data_(std::move(data)),
      rank_(rank),
      workers_(workers),
      o_(options),
      data_fingerprint_(laconic::fingerprint(*data_)),
      train_(o_.shuffle ? TextBlocks::training(data_->train, blocks(), o_.seed)
                        : TextBlocks::evaluation(data_->train, blocks())),
      per_epoch_((std::ssize(data_->train) - 1) / (workers * o_.batch * o_.block)),
      upload_(std::make_unique<Upload>(device_)) {
  require<DataError>(per_epoch_ >= 1, data_->name, " has ", grouped(data_->train.size()), " tokens to train on, and ",
                     workers, workers == 1 ? " worker" : " workers", " with ", o_.batch, " blocks of ", o_.block,
                     " tokens a step need ", grouped(static_cast<std::uint64_t>(workers * o_.batch * o_.block + 1)),
                     ". Give a longer text, or less `batch` or `block`.");
  require<DataError>(data_->valid.size() >= 2, data_->name, " has nothing to evaluate on. Give a longer text.");
}

void BlockLanguageModelling::set_device(Device device) {
  device_ = device;
  upload_ = std::make_unique<Upload>(device);
}

std::int64_t BlockLanguageModelling::deal_rest(const DataPosition& position) {
  std::int64_t samples = (std::ssize(data_->train) - 1) / o_.block;
  std::vector<std::int64_t> rest =
      o_.shuffle ? std::vector<std::int64_t>() : TextBlocks::all_of(data_->train, o_.block);
  rest_first_ = 0;
  for (const Trained& t : position.trained) {
    if (!o_.shuffle) rest = TextBlocks::unread(rest, t.workers, std::min(t.batches, samples) * o_.batch);
    std::erase(rest, (std::ssize(data_->train) - 1) / o_.block);  // the last one may not be whole: no step reads it
    samples -= t.workers * o_.batch * t.batches, rest_first_ += t.batches;
  }
  rest_.reset();
  if (!o_.shuffle) {
    samples = std::ssize(rest);
    rest_ = TextBlocks::of(data_->train, blocks(), rest);
  }
  rest_epoch_ = position.epoch;
  return rest_batches_ = std::max<std::int64_t>(0, samples / (workers_ * o_.batch));
}

Share BlockLanguageModelling::share(std::int64_t epoch, std::int64_t batch) const {
  const std::int64_t before = epoch == rest_epoch_ ? rest_first_ : 0, all = workers_ * o_.batch;
  // Blocks are what dropout counts, as a language model of streams counts those.
  return {.samples = o_.batch * o_.block,
          .global_samples = all * o_.block,
          .first_sample = (before + batch) * all + rank_ * o_.batch,
          .each = o_.batch * o_.block};
}

void BlockLanguageModelling::start(std::int64_t epoch, std::int64_t batch) {
  const bool ends = batch >= batches_of(epoch);
  epoch_ = ends ? epoch + 1 : epoch, next_ = ends ? 0 : batch;
}

Share BlockLanguageModelling::load() {
  if (next_ == batches_of(epoch_)) start(epoch_ + 1, 0);
  const bool rest = epoch_ == rest_epoch_;
  const std::int64_t drawn = epoch_ * kMostBatches + (rest ? rest_first_ : 0) + next_;
  const TextBlocks& blocks = rest && rest_ ? *rest_ : train_;
  const TimeFirst batch = time_first(blocks.batch(o_.shuffle ? drawn : next_));
  x_ = (*upload_)(batch.x), next_tokens_ = (*upload_)(batch.next);
  return share(epoch_, next_++);
}

Tensor BlockLanguageModelling::loss() { return ops::cross_entropy((*model_)(x_), next_tokens_); }

std::function<Tensor()> BlockLanguageModelling::ghost_loss(std::int64_t blocks) {
  return
      [this, batch = ghost_batch({o_.block}, blocks)] { return classification_loss(*model_, batch.x, batch.labels); };
}

EvalSums BlockLanguageModelling::evaluate(const std::vector<std::int32_t>& text, const Stop& stop) const {
  const NoGrad no_grad;
  const EvalMode eval(*model_);
  const TextBlocks blocks = TextBlocks::evaluation(text, this->blocks());
  EvalSums sums;
  Upload upload(device_);
  for (std::int64_t i = 0; i < blocks.batches() && !stop(); ++i) {
    const TextBlocks::Batch batch = blocks.batch(i);
    const TimeFirst turned = time_first(batch);
    // What a block is filled up with stands at its end: it is the last one, and rows of all others count.
    const std::int64_t B = batch.x.dim(0), T = batch.x.dim(1), left_out = B * T - batch.counted;
    const Tensor logits = (*model_)(upload(turned.x)), next = upload(turned.next);
    sums.samples += static_cast<double>(batch.counted);
    sums.loss += ops::sum_of_cross_entropy(logits, next);
    for (std::int64_t t = T - left_out; t < T; ++t)
      sums.loss -= ops::sum_of_cross_entropy(logits.rows(t * B + B - 1, 1), next.range(t * B + B - 1, 1));
  }
  return sums;
}

void BlockLanguageModelling::describe(RunInfo& info) const {
  info.data = data_->name, info.unseen_words = data_->unseen, info.words_per_step = o_.block;
  info.train_samples = std::ssize(data_->train), info.validation_samples = std::ssize(data_->valid);
  info.test_samples = std::ssize(data_->test);
}

void BlockLanguageModelling::describe_weights(StateDict& weights) const {
  weights.set_text("vocabulary", std::to_string(laconic::fingerprint(data_->vocabulary)));
}

std::string BlockLanguageModelling::fingerprint() const {
  return concat("data=", data_->name, "\ntrain=", data_->train.size(), "\nvalid=", data_->valid.size(),
                "\ntest=", data_->test.size(), "\nvocabulary=", data_->vocabulary.size(),
                "\ncontent of the data=", data_fingerprint_, "\nbatch=", o_.batch, "\nblock=", o_.block,
                "\nshuffle=", o_.shuffle, "\nlayers of the GPT=", o_.model);
}

}  // namespace laconic
