#include "dist/trainer/supervised.h"

namespace laconic {

Supervised::Supervised(std::shared_ptr<Module> model, SharedDataset train, SharedDataset test, Loss loss,
                       const dist::Worker& worker, const Options& options)
    : model_(std::move(model)),
      train_(std::move(train)),
      test_(std::move(test)),
      loss_(std::move(loss)),
      rank_(worker.rank),
      workers_(worker.size),
      o_(options),
      reader_(reader_of(train_, o_.seed)),
      content_(laconic::fingerprint(*train_)) {
  require<DataError>(train_->size() > 0, o_.name, ": there is nothing to train on.");
}

ShardedSampler Supervised::sampler() const {
  return ShardedSampler({.samples = train_->size(),
                         .ranks = workers_,
                         .rank = rank_,
                         .batch = o_.batch,
                         .shuffle = o_.shuffle,
                         .seed = o_.seed});
}

Share Supervised::share(std::int64_t batch) const {
  const ShardedSampler::Part part = sampler().part(batch);
  return {part.count, part.global_count, part.first};
}

void Supervised::start(std::int64_t epoch, std::int64_t batch) {
  const DataLoader::Options options{
      .sampler = sampler().options(), .threads = o_.data_threads, .first_epoch = epoch, .first_step = batch};
  batch_ = {};
  loader_.reset();
  loader_ = std::make_unique<BatchUpload>(std::make_unique<DataLoader>(reader_, options),
                                          BatchUpload::Options{.device = device_});
}

Share Supervised::load() {
  if (!loader_) start(0, 0);
  batch_ = {};  // its buffer may be used again
  require<Error>(loader_->next(batch_), o_.name, ": no further batch.");
  return {batch_.samples, batch_.global_samples, batch_.first_global_position};
}

EvalSums Supervised::evaluate() {
  const NoGrad no_grad;
  const bool was_training = model_->training();
  model_->eval();
  DataLoader::Options options;
  options.sampler = {.samples = test_ ? test_->size() : 0,
                     .ranks = workers_,
                     .rank = rank_,
                     .batch = o_.eval_batch,
                     .shuffle = false,
                     .share = true};
  options.threads = o_.data_threads;
  options.epochs = 1;
  EvalSums sums;
  sums.metrics.resize(o_.metrics.size());
  if (options.sampler.samples > 0) {
    BatchUpload loader(std::make_unique<DataLoader>(reader_of(test_, o_.seed), options), {.device = device_});
    for (Batch batch; loader.next(batch); batch = {}) {
      if (batch.samples == 0) continue;
      const Tensor prediction = (*model_)(batch.x);
      const auto n = static_cast<double>(batch.samples);
      sums.samples += n;
      sums.loss += n * double{loss_(prediction, batch.y).item()};
      for (std::size_t i = 0; i < o_.metrics.size(); ++i)
        sums.metrics[i] += n * o_.metrics[i].metric(prediction, batch.y);
    }
  }
  model_->train(was_training);
  return sums;
}

std::vector<std::string> Supervised::metrics() const {
  std::vector<std::string> names;
  for (const Named& m : o_.metrics) names.push_back(m.name);
  return names;
}

std::string Supervised::fingerprint() const {
  return concat("data=", o_.name, "\ntrain=", train_->size(), "\ntest=", test_ ? test_->size() : 0,
                "\ncontent of the data=", content_, "\nbatch=", o_.batch, "\nshuffle=", o_.shuffle,
                "\ndata seed=", o_.seed);
}

void Supervised::describe(RunInfo& info) const {
  info.data = o_.name, info.train_samples = train_->size(), info.test_samples = test_ ? test_->size() : 0;
}

}  // namespace laconic
