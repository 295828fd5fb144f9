#include "dist/trainer/image_classification.h"

#include <fmt/ranges.h>

#include "core/ops/losses.h"
#include "layers/loss.h"
#include "layers/models/zoo.h"

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
          .augment = concat(o.augment.pad, ",", o.augment.flip),
          .mean = data->mean,
          .std = data->std};
}

}  // namespace

ImageClassification::ImageClassification(std::shared_ptr<Module> model, std::shared_ptr<const ImageDataset> data,
                                         int rank, int workers, const Options& options)
    : ImageClassification(std::move(model), samples_of(data, options), rank, workers, options) {}

ImageClassification::ImageClassification(std::shared_ptr<Module> model, ImageSamples samples, int rank, int workers,
                                         const Options& options)
    : SampleWorkload(std::move(model), reader_of_images(samples.image, samples.train, samples.train_name),
                     {.samples = samples.train_size,
                      .ranks = workers,
                      .rank = rank,
                      .batch = options.batch,
                      .shuffle = options.shuffle,
                      .seed = options.seed},
                     options.data_threads),
      samples_(std::move(samples)),
      o_(options) {}

Tensor ImageClassification::loss() { return classification_loss(*model_, loaded().x, loaded().y, o_.label_smoothing); }

std::function<Tensor()> ImageClassification::ghost_loss(std::int64_t samples) {
  return [this, batch = ghost_batch(samples_.image, samples)] {
    return classification_loss(*model_, batch.x, batch.labels, o_.label_smoothing);
  };
}

EvalSums ImageClassification::evaluate(const Stop& stop) {
  EvalSums sums;
  test(reader_of_images(samples_.image, samples_.test, samples_.test_name), samples_.test_size, o_.eval_batch,
       /*drop_left_out=*/true, stop, [&](const Batch& batch) {
         const Tensor logits = (*model_)(batch.x);
         sums.samples += static_cast<double>(batch.samples);
         sums.loss += ops::sum_of_cross_entropy(logits, batch.y);
         sums.wrong_top1 += static_cast<double>(batch.samples - ops::count_correct(logits, batch.y, 1));
         if (has_top5()) sums.wrong_top5 += static_cast<double>(batch.samples - ops::count_correct(logits, batch.y, 5));
       });
  return sums;
}

void ImageClassification::describe_weights(StateDict& weights) const {
  if (samples_.mean.empty()) return;
  weights.set_text("mean", fmt::format("{}", fmt::join(samples_.mean, ",")));
  weights.set_text("std", fmt::format("{}", fmt::join(samples_.std, ",")));
}

std::string ImageClassification::fingerprint() const {
  return concat("data=", samples_.name, "\ntrain=", samples_.train_size, "\ntest=", samples_.test_size,
                "\ncontent of the data=", samples_.content, "\nbatch=", o_.batch, "\nshuffle=", o_.shuffle,
                "\ndata seed=", o_.seed, "\naugment=", samples_.augment, "\nsmoothing=", o_.label_smoothing,
                samples_.sizes != 0 ? concat("\nsizes of the files=", samples_.sizes) : "");
}

}  // namespace laconic
