#include "dist/trainer/training_batches.h"

namespace laconic {

Share TrainingBatches::share(std::int64_t batch) const {
  const ShardedSampler::Part part = sampler_.part(batch);
  return {part.count, part.global_count, part.first};
}

void TrainingBatches::start(std::int64_t epoch, std::int64_t batch) {
  const DataLoader::Options options{
      .sampler = sampler_.options(), .threads = data_threads_, .first_epoch = epoch, .first_step = batch};
  batch_ = {};
  loader_.reset();
  loader_ = std::make_unique<BatchUpload>(std::make_unique<DataLoader>(reader_, options),
                                          BatchUpload::Options{.device = device_});
}

Share TrainingBatches::load() {
  if (!loader_) start(0, 0);
  batch_ = {};  // its buffer may be used again
  require<Error>(loader_->next(batch_), "training data: no further batch.");
  return {batch_.samples, batch_.global_samples, batch_.first_global_position};
}

void TrainingBatches::test(Module& model, const SampleReader& reader, std::int64_t samples, std::int64_t eval_batch,
                           bool drop_left_out, const Stop& stop,
                           const std::function<void(const Batch& batch)>& f) const {
  if (samples == 0) return;
  const NoGrad no_grad;
  const bool was_training = model.training();
  model.eval();
  DataLoader::Options options;
  options.sampler = {.samples = samples,
                     .ranks = sampler_.options().ranks,
                     .rank = sampler_.options().rank,
                     .batch = eval_batch,
                     .shuffle = false,
                     .share = true};
  options.threads = data_threads_;
  options.epochs = 1;
  BatchUpload loader(std::make_unique<DataLoader>(reader, options),
                     {.device = device_, .drop_left_out = drop_left_out});
  for (Batch batch; loader.next(batch) && !stop(); batch = {})
    if (batch.samples > 0) f(batch);
  model.train(was_training);
}

}  // namespace laconic
