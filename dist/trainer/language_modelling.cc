#include "dist/trainer/language_modelling.h"

#include <algorithm>

#include "core/ops/losses.h"
#include "data/input_file.h"
#include "layers/loss.h"
#include "layers/models/zoo.h"

namespace laconic {

void TextWorkload::set_device(Device device) {
  device_ = device;
  upload_ = std::make_unique<Upload>(device);
}

void TextWorkload::start(std::int64_t epoch, std::int64_t batch) {
  const bool ends = batch >= batches_of(epoch);
  epoch_ = ends ? epoch + 1 : epoch, next_ = ends ? 0 : batch;
  loaded_ = {};
}

Share TextWorkload::load() {
  if (next_ == batches_of(epoch_)) start(epoch_ + 1, 0);
  const Words words = read(epoch_, next_);
  loaded_ = {(*upload_)(words.x), (*upload_)(words.next)};
  return share(epoch_, next_++);
}

Share TextWorkload::share(std::int64_t epoch, std::int64_t batch) const {
  const std::int64_t all = workers_ * rows_, length = length_of(epoch, batch);
  return {.samples = rows_ * length,
          .global_samples = all * length,
          .first_sample = (batches_before(epoch) + batch) * all + rank_ * rows_,
          .each = rows_ * length};
}

std::function<Tensor()> TextWorkload::ghost_loss(std::int64_t rows) {
  return [this, batch = ghost_batch({length_}, rows)] { return classification_loss(model(), batch.x, batch.labels); };
}

std::string TextWorkload::fingerprint() const {
  return concat("data=", data_->name, "\ntrain=", data_->train.size(), "\nvalid=", data_->valid.size(),
                "\ntest=", data_->test.size(), "\nvocabulary=", data_->vocabulary.size(),
                "\ncontent of the data=", data_fingerprint_, "\nbatch=", rows_, settings());
}

void TextWorkload::describe(RunInfo& info) const {
  info.data = data_->name, info.data_note = data_->note, info.unseen_words = data_->unseen;
  info.words_per_step = length_;
  info.train_samples = std::ssize(data_->train), info.validation_samples = std::ssize(data_->valid);
  info.test_samples = std::ssize(data_->test);
}

void TextWorkload::describe_weights(StateDict& weights) const {
  if (data_->tokens.kind == Tokens::Kind::numbers) return;  // the vocabulary is only known to who cut the text
  weights.set_text("vocabulary", std::to_string(laconic::fingerprint(data_->vocabulary)));
}

// Streams.

namespace {

/// Returns the options, if they make sense and the text is long enough for a step: before anything is divided by them.
const LanguageModelling::Options& sensible(const LanguageModelling::Options& o, const TextDataset& data, int workers) {
  require<UsageError>(o.batch >= 1 && o.bptt >= 1 && o.eval_rows >= 1, "language model: batch = ", o.batch,
                      ", bptt = ", o.bptt, ", eval_rows = ", o.eval_rows, " must be at least 1.");
  const double streams = static_cast<double>(workers) * static_cast<double>(o.batch),
               needed = streams * (static_cast<double>(o.bptt) + 1);
  require<DataError>(needed <= static_cast<double>(data.train.size()), data.name, " has ", grouped(data.train.size()),
                     " words to train on, and ", workers, workers == 1 ? " worker" : " workers", " with ", o.batch,
                     " streams of ", o.bptt, " words a step need ",
                     grouped(static_cast<std::uint64_t>(std::min(needed, 1e18))),
                     ". Give a longer text, or less `batch` or `bptt`.");
  return o;
}

}  // namespace

LanguageModelling::LanguageModelling(std::shared_ptr<models::LanguageModel> model,
                                     std::shared_ptr<const TextDataset> data, int rank, int workers,
                                     const Options& options)
    : TextWorkload(data, rank, workers, sensible(options, *data, workers).batch, options.bptt),
      model_(std::move(model)),
      eval_rows_(options.eval_rows),
      streams_(TextStreams::training(data_->train, rows_, workers, rank)) {
  const std::int64_t vocabulary = model_->options().vocabulary;
  require<ShapeError>(vocabulary == data_->vocabulary.size(), "language model: the model knows ", vocabulary,
                      " words, the text has ", data_->vocabulary.size(), ".");
}

std::int64_t LanguageModelling::deal_rest(const DataPosition& position) {
  TokenSequence words = data_->train;
  for (const Trained& t : position.trained) {
    const std::int64_t most = std::ssize(words) / length_ + 1;  // batches of any stream
    words = TextStreams::unread(words, t.workers * rows_, std::min(t.batches, most) * length_);
  }
  rest_words_ = std::move(words);
  rest_epoch_ = position.epoch;
  return batches_of(rest_.emplace(TextStreams::training(rest_words_, rows_, workers_, rank_)));
}

void LanguageModelling::start(std::int64_t epoch, std::int64_t batch) {
  TextWorkload::start(epoch, batch);
  if (batch == 0 || batch >= batches_of(epoch)) state_ = {};
}

std::int64_t LanguageModelling::length_of(std::int64_t epoch, std::int64_t batch) const {
  return std::min(length_, streams(epoch).length() - batch * length_);
}

TextWorkload::Words LanguageModelling::read(std::int64_t epoch, std::int64_t batch) const {
  TextStreams::Segment s = streams(epoch).segment(batch * length_, length_of(epoch, batch));
  return {std::move(s.words), std::move(s.next)};
}

Tensor LanguageModelling::loss() {
  before_ = state_;
  return ops::cross_entropy((*model_)(loaded_.x, state_), loaded_.next);
}

EvalSums LanguageModelling::evaluate_on(const TokenSequence& text, const Stop& stop) const {
  const NoGrad no_grad;
  const EvalMode eval(*model_);
  const TextStreams streams = TextStreams::evaluation(text, eval_rows_, workers_, rank_);
  EvalSums sums;
  LSTM::State state;
  Upload upload(device_);
  for (std::int64_t from = 0; from < streams.length() && !stop(); from += length_) {
    const auto segment = streams.segment(from, std::min(length_, streams.length() - from));
    const Tensor logits = (*model_)(upload(segment.words), state), next = upload(segment.next);
    if (segment.counted == 0) continue;
    sums.samples += static_cast<double>(segment.counted);
    sums.loss += ops::sum_of_cross_entropy(logits.rows(0, segment.counted), next.range(0, segment.counted));
  }
  return sums;
}

std::string LanguageModelling::settings() const {
  return concat("\nbptt=", length_, "\ndropout of the model=", model_->options().dropout,
                "\ntied=", model_->options().tied);
}

void LanguageModelling::save(StateDict& state) const {
  if (!state_.h.defined()) return;  // zeros
  state.set("h", state_.h);
  state.set("c", state_.c);
}

void LanguageModelling::restore(const StateDict& state) {
  state_ = {};
  if (state.empty()) return;
  const auto& o = model_->options();
  const Shape shape{o.layers, rows_, o.hidden};
  for (const auto& [name, mine] : {std::pair{"h", &state_.h}, std::pair{"c", &state_.c}}) {
    const Tensor& t = state.at(name);
    require<DataError>(t.shape() == shape && t.dtype() == DType::f32, "resume: the hidden state ", name, " is ",
                       t.dtype(), " ", t.shape(), ", expected ", shape,
                       ". The checkpoint is damaged; take an older one.");
    *mine = Tensor::empty(shape, DType::f32, device_);
    mine->copy_from(t);
  }
}

// Blocks.

namespace {

/// A batch in the model's order: x i64 [T, B], next [T B], row t B + b.
std::pair<Tensor, Tensor> time_first(const TextBlocks::Batch& batch) {
  const std::int64_t B = batch.x.dim(0), T = batch.x.dim(1);
  const std::pair turned{Tensor::empty({T, B}, DType::i64), Tensor::empty({T * B}, DType::i64)};
  for (const auto& [to, from] : {std::pair{turned.first, batch.x}, std::pair{turned.second, batch.next}})
    for (std::int64_t b = 0; b < B; ++b)
      for (std::int64_t t = 0; t < T; ++t) to.data<std::int64_t>()[t * B + b] = from.data<std::int64_t>()[b * T + t];
  return turned;
}

constexpr std::int64_t kMostBatches = std::int64_t{1} << 32;  // of an epoch

}  // namespace

BlockLanguageModelling::BlockLanguageModelling(std::shared_ptr<Module> model, std::shared_ptr<const TextDataset> data,
                                               int rank, int workers, const Options& options)
    : TextWorkload(std::move(data), rank, workers, options.batch, options.block),
      model_(std::move(model)),
      o_(options),
      train_(o_.shuffle ? TextBlocks::training(data_->train, blocks(), o_.seed)
                        : TextBlocks::evaluation(data_->train, blocks())),
      per_epoch_((std::ssize(data_->train) - 1) / (workers * rows_ * length_)) {
  require<DataError>(per_epoch_ >= 1, data_->name, " has ", grouped(data_->train.size()), " tokens to train on, and ",
                     workers, workers == 1 ? " worker" : " workers", " with ", rows_, " blocks of ", length_,
                     " tokens a step need ", grouped(static_cast<std::uint64_t>(workers * rows_ * length_ + 1)),
                     ". Give a longer text, or less `batch` or `block`.");
  require<DataError>(data_->valid.size() >= 2, data_->name, " has nothing to evaluate on. Give a longer text.");
}

std::int64_t BlockLanguageModelling::deal_rest(const DataPosition& position) {
  std::int64_t samples = (std::ssize(data_->train) - 1) / length_;
  std::vector<std::int64_t> rest;
  if (!o_.shuffle) rest = TextBlocks::all_of(data_->train, length_);
  rest_first_ = 0;
  for (const Trained& t : position.trained) {
    if (!o_.shuffle) rest = TextBlocks::unread(rest, t.workers, std::min(t.batches, samples) * rows_);
    std::erase(rest, (std::ssize(data_->train) - 1) / length_);  // the last one may not be whole: no step reads it
    samples -= t.workers * rows_ * t.batches, rest_first_ += t.batches;
  }
  rest_.reset();
  if (!o_.shuffle) {
    samples = std::ssize(rest);
    rest_ = TextBlocks::of(data_->train, blocks(), rest);
  }
  rest_epoch_ = position.epoch;
  return rest_batches_ = std::max<std::int64_t>(0, samples / (workers_ * rows_));
}

TextWorkload::Words BlockLanguageModelling::read(std::int64_t epoch, std::int64_t batch) const {
  const TextBlocks& blocks = epoch == rest_epoch_ && rest_ ? *rest_ : train_;
  const std::int64_t drawn = epoch * kMostBatches + batches_before(epoch) + batch;
  auto [x, next] = time_first(blocks.batch(o_.shuffle ? drawn : batch));
  return {std::move(x), std::move(next)};
}

Tensor BlockLanguageModelling::loss() { return ops::cross_entropy((*model_)(loaded_.x), loaded_.next); }

EvalSums BlockLanguageModelling::evaluate_on(const TokenSequence& text, const Stop& stop) const {
  const NoGrad no_grad;
  const EvalMode eval(*model_);
  const TextBlocks blocks = TextBlocks::evaluation(text, this->blocks());
  EvalSums sums;
  Upload upload(device_);
  for (std::int64_t i = 0; i < blocks.batches() && !stop(); ++i) {
    const TextBlocks::Batch batch = blocks.batch(i);
    const auto [x, following] = time_first(batch);
    // What a block is filled up with stands at its end: it is the last one, and rows of all others count.
    const std::int64_t B = batch.x.dim(0), T = batch.x.dim(1), left_out = B * T - batch.counted;
    const Tensor logits = (*model_)(upload(x)), next = upload(following);
    sums.samples += static_cast<double>(batch.counted);
    sums.loss += ops::sum_of_cross_entropy(logits, next);
    for (std::int64_t t = T - left_out; t < T; ++t)
      sums.loss -= ops::sum_of_cross_entropy(logits.rows(t * B + B - 1, 1), next.range(t * B + B - 1, 1));
  }
  return sums;
}

std::string BlockLanguageModelling::settings() const {
  return concat("\nblock=", length_, "\nshuffle=", o_.shuffle, "\nlayers of the GPT=", o_.model);
}

}  // namespace laconic
