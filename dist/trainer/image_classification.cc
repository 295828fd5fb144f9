#include "dist/trainer/image_classification.h"

#include "core/ops/losses.h"
#include "layers/loss.h"

namespace laconic {
namespace {

ImageSamples samples_of(const std::shared_ptr<const ImageDataset>& data, const ImageClassification::Options& o) {
  return {.name = data->name,
          .classes = data->classes,
          .image = {data->channels, data->height, data->width},
          .train_size = data->train.size(),
          .test_size = data->test.size(),
          .train = image_reader(data, Split::train, o.augment, o.seed),
          .test = image_reader(data, Split::test, kNoAugment, o.seed),
          .content = fingerprint(*data),
          .augment = concat(o.augment.pad, ",", o.augment.flip)};
}

}  // namespace

ImageClassification::ImageClassification(std::shared_ptr<Module> model, std::shared_ptr<const ImageDataset> data,
                                         int rank, int workers, const Options& options)
    : ImageClassification(std::move(model), samples_of(data, options), rank, workers, options) {}

ImageClassification::ImageClassification(std::shared_ptr<Module> model, ImageSamples samples, int rank, int workers,
                                         const Options& options)
    : model_(std::move(model)), samples_(std::move(samples)), rank_(rank), workers_(workers), o_(options) {}

ShardedSampler ImageClassification::sampler() const {
  return ShardedSampler({.samples = samples_.train_size,
                         .ranks = workers_,
                         .rank = rank_,
                         .batch = o_.batch,
                         .shuffle = o_.shuffle,
                         .seed = o_.seed});
}

std::int64_t ImageClassification::batches_per_epoch() const { return sampler().steps_per_epoch(); }

Share ImageClassification::share(std::int64_t batch) const {
  const ShardedSampler::Part part = sampler().part(batch);
  return {part.count, part.global_count, part.first};
}

void ImageClassification::start(std::int64_t epoch, std::int64_t batch) {
  const DataLoader::Options options{
      .sampler = sampler().options(), .threads = o_.data_threads, .first_epoch = epoch, .first_step = batch};
  batch_ = {};
  loader_.reset();
  loader_ = std::make_unique<BatchUpload>(
      std::make_unique<DataLoader>(reader_of_images(samples_.image, samples_.train), options),
      BatchUpload::Options{.device = device_});
}

Share ImageClassification::load() {
  if (!loader_) start(0, 0);
  batch_ = {};  // its buffer may be used again
  require<Error>(loader_->next(batch_), "training data: no further batch.");
  return {batch_.samples, batch_.global_samples, batch_.first_global_position};
}

Tensor ImageClassification::loss() { return classification_loss(*model_, batch_.x, batch_.y, o_.label_smoothing); }

EvalSums ImageClassification::evaluate() {
  const NoGrad no_grad;
  const bool was_training = model_->training();
  model_->eval();
  DataLoader::Options options;
  options.sampler = {.samples = samples_.test_size,
                     .ranks = workers_,
                     .rank = rank_,
                     .batch = o_.eval_batch,
                     .shuffle = false,
                     .share = true};
  options.threads = o_.data_threads;
  options.epochs = 1;
  BatchUpload loader(std::make_unique<DataLoader>(reader_of_images(samples_.image, samples_.test), options),
                     {.device = device_, .drop_left_out = true});
  EvalSums sums;
  for (Batch batch; loader.next(batch); batch = {}) {
    if (batch.samples == 0) continue;
    const Tensor logits = (*model_)(batch.x);
    sums.samples += static_cast<double>(batch.samples);
    sums.loss += ops::sum_of_cross_entropy(logits, batch.y);
    sums.wrong_top1 += static_cast<double>(batch.samples - ops::count_correct(logits, batch.y, 1));
    if (has_top5()) sums.wrong_top5 += static_cast<double>(batch.samples - ops::count_correct(logits, batch.y, 5));
  }
  model_->train(was_training);
  return sums;
}

std::string ImageClassification::fingerprint() const {
  return concat("data=", samples_.name, "\ntrain=", samples_.train_size, "\ntest=", samples_.test_size,
                "\ncontent of the data=", samples_.content, "\nbatch=", o_.batch, "\nshuffle=", o_.shuffle,
                "\ndata seed=", o_.seed, "\naugment=", samples_.augment, "\nsmoothing=", o_.label_smoothing,
                samples_.sizes != 0 ? concat("\nsizes of the files=", samples_.sizes) : "");
}

}  // namespace laconic
