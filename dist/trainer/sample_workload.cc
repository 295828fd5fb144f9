#include "dist/trainer/sample_workload.h"

#include <algorithm>

namespace laconic {

Share SampleWorkload::share(std::int64_t epoch, std::int64_t batch) const {
  const ShardedSampler::Part part = sampler(epoch).part(batch);
  return {part.count, part.global_count, part.first, sampler(epoch).options().batch};
}

std::int64_t SampleWorkload::deal_rest(const DataPosition& position) {
  ShardedSampler::Options rest = sampler_.options();
  for (const Trained& t : position.trained) {
    const std::int64_t left = rest.samples - rest.begin;
    const std::int64_t each = t.workers * std::min(rest.batch, (left + t.workers - 1) / t.workers);
    rest.begin += t.batches <= left / std::max<std::int64_t>(1, each) ? t.batches * each : left;
  }
  rest_epoch_ = position.epoch;
  return rest_.emplace(rest).steps_per_epoch();
}

void SampleWorkload::start(std::int64_t epoch, std::int64_t batch) {
  const DataLoader::Options options{
      .sampler = sampler(epoch).options(),
      .threads = data_threads_,
      .first_epoch = epoch,
      .first_step = batch,
      .epochs = rest_ && epoch <= rest_epoch_ ? rest_epoch_ + (epoch < rest_epoch_ ? 0 : 1) - epoch : -1};
  batch_ = {};
  next_epoch_ = rest_ && epoch < rest_epoch_ ? rest_epoch_ : epoch + 1;
  loader_.reset();
  loader_ = std::make_unique<BatchUpload>(std::make_unique<DataLoader>(reader_, options),
                                          BatchUpload::Options{.device = device_});
}

Share SampleWorkload::load() {
  if (!loader_) start(0, 0);
  batch_ = {};                   // its buffer may be used again
  if (!loader_->next(batch_)) {  // the rest of an epoch has ended
    start(next_epoch_, 0);
    require<Error>(loader_->next(batch_), "training data: no further batch.");
  }
  return {batch_.samples, batch_.global_samples, batch_.first_global_position, sampler_.options().batch};
}

void SampleWorkload::test(const SampleReader& reader, std::int64_t samples, std::int64_t eval_batch, bool drop_left_out,
                          const Stop& stop, const std::function<void(const Batch& batch)>& f) const {
  if (samples == 0) return;
  const NoGrad no_grad;
  const EvalMode eval(*model_);
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
}

}  // namespace laconic
