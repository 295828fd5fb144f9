#include "dist/trainer/language_modelling.h"

#include <algorithm>

#include "core/ops/losses.h"
#include "data/input_file.h"
#include "layers/loss.h"
#include "layers/models/zoo.h"

namespace laconic {
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

TextStreams::Segment on_device(const TextStreams::Segment& s, Upload& upload) {
  return {.words = upload(s.words), .next = upload(s.next), .counted = s.counted};
}

}  // namespace

LanguageModelling::LanguageModelling(std::shared_ptr<models::LanguageModel> model,
                                     std::shared_ptr<const TextDataset> data, int rank, int workers,
                                     const Options& options)
    : model_(std::move(model)),
      data_(std::move(data)),
      rank_(rank),
      workers_(workers),
      o_(sensible(options, *data_, workers)),
      data_fingerprint_(laconic::fingerprint(*data_)),
      streams_(TextStreams::training(data_->train, o_.batch, workers, rank)),
      upload_(std::make_unique<Upload>(device_)) {
  const std::int64_t vocabulary = model_->options().vocabulary;
  require<ShapeError>(vocabulary == data_->vocabulary.size(), "language model: the model knows ", vocabulary,
                      " words, the text has ", data_->vocabulary.size(), ".");
}

void LanguageModelling::set_device(Device device) {
  device_ = device;
  upload_ = std::make_unique<Upload>(device);
}

std::int64_t LanguageModelling::batches_per_epoch() const { return batches_of(streams_); }

std::int64_t LanguageModelling::deal_rest(const DataPosition& position) {
  std::vector<std::int32_t> words = data_->train;
  for (const Trained& t : position.trained) {
    const std::int64_t most = std::ssize(words) / o_.bptt + 1;  // batches of any stream
    words = TextStreams::unread(words, t.workers * o_.batch, std::min(t.batches, most) * o_.bptt);
  }
  rest_words_ = std::move(words);
  rest_epoch_ = position.epoch;
  return batches_of(rest_.emplace(TextStreams::training(rest_words_, o_.batch, workers_, rank_)));
}

Share LanguageModelling::share(std::int64_t epoch, std::int64_t batch) const {
  const std::int64_t words = std::min(o_.bptt, this->streams(epoch).length() - batch * o_.bptt);
  const std::int64_t streams = workers_ * o_.batch;
  // Streams are what dropout counts: those of each batch of an epoch are others, so that micro-batches differ.
  return {.samples = o_.batch * words,
          .global_samples = streams * words,
          .first_sample = batch * streams + rank_ * o_.batch,
          .each = o_.batch * words};
}

void LanguageModelling::start(std::int64_t epoch, std::int64_t batch) {
  const bool ends = batch >= batches_of(streams(epoch));
  epoch_ = ends ? epoch + 1 : epoch, next_ = ends ? 0 : batch;
  segment_ = {};
  if (next_ == 0) state_ = {};
}

Share LanguageModelling::load() {
  if (next_ == batches_of(streams(epoch_))) start(epoch_ + 1, 0);
  const std::int64_t from = next_ * o_.bptt;
  const TextStreams& here = streams(epoch_);
  segment_ = on_device(here.segment(from, std::min(o_.bptt, here.length() - from)), *upload_);
  return share(epoch_, next_++);
}

Tensor LanguageModelling::loss() {
  before_ = state_;
  return ops::cross_entropy((*model_)(segment_.words, state_), segment_.next);
}

std::function<Tensor()> LanguageModelling::ghost_loss(std::int64_t streams) {
  return
      [this, batch = ghost_batch({o_.bptt}, streams)] { return classification_loss(*model_, batch.x, batch.labels); };
}

EvalSums LanguageModelling::evaluate(const std::vector<std::int32_t>& text, const Stop& stop) const {
  const NoGrad no_grad;
  const EvalMode eval(*model_);
  const TextStreams streams = TextStreams::evaluation(text, o_.eval_rows, workers_, rank_);
  EvalSums sums;
  LSTM::State state;
  Upload upload(device_);
  for (std::int64_t from = 0; from < streams.length() && !stop(); from += o_.bptt) {
    const auto segment = on_device(streams.segment(from, std::min(o_.bptt, streams.length() - from)), upload);
    const Tensor logits = (*model_)(segment.words, state);
    if (segment.counted == 0) continue;
    sums.samples += static_cast<double>(segment.counted);
    sums.loss += ops::sum_of_cross_entropy(logits.rows(0, segment.counted), segment.next.range(0, segment.counted));
  }
  return sums;
}

void LanguageModelling::describe(RunInfo& info) const {
  info.data = data_->name, info.unseen_words = data_->unseen, info.words_per_step = o_.bptt;
  info.train_samples = std::ssize(data_->train), info.validation_samples = std::ssize(data_->valid);
  info.test_samples = std::ssize(data_->test);
}

void LanguageModelling::describe_weights(StateDict& weights) const {
  weights.set_text("vocabulary", std::to_string(laconic::fingerprint(data_->vocabulary)));
}

std::string LanguageModelling::fingerprint() const {
  return concat("data=", data_->name, "\ntrain=", data_->train.size(), "\nvalid=", data_->valid.size(),
                "\ntest=", data_->test.size(), "\nvocabulary=", data_->vocabulary.size(),
                "\ncontent of the data=", data_fingerprint_, "\nbatch=", o_.batch, "\nbptt=", o_.bptt,
                "\ndropout of the model=", model_->options().dropout, "\ntied=", model_->options().tied);
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
  const Shape shape{o.layers, o_.batch, o.hidden};
  for (const auto& [name, mine] : {std::pair{"h", &state_.h}, std::pair{"c", &state_.c}}) {
    const Tensor& t = state.at(name);
    require<DataError>(t.shape() == shape && t.dtype() == DType::f32, "resume: the hidden state ", name, " is ",
                       t.dtype(), " ", t.shape(), ", expected ", shape,
                       ". The checkpoint is damaged; take an older one.");
    *mine = Tensor::empty(shape, DType::f32, device_);
    mine->copy_from(t);
  }
}

}  // namespace laconic
