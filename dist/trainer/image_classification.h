#pragma once
#include <memory>

#include "data/loader.h"
#include "dist/trainer/workload.h"

namespace laconic {

/// Trains a classifier of images: softmax cross entropy, mean over the batch, with that of auxiliary heads
/// (layers/auxiliary_heads.h); evaluates top-1 and top-5 errors.
class ImageClassification final : public Workload {
 public:
  struct Options {
    std::int64_t batch = 32;          ///< B, per worker
    std::int64_t eval_batch = 250;
    bool shuffle = true;
    Augment augment{};
    float label_smoothing = 0;
    int data_threads = 1;
    std::uint64_t seed = 0;
  };
  /// model : images [n, C, H, W] -> logits [n, classes].   The data set is shared by all workers of a process.
  ImageClassification(std::shared_ptr<Module> model, std::shared_ptr<const ImageDataset> data, int rank, int workers,
                      const Options& options);

  Module& model() override { return *model_; }
  Shape input() const override { return {data_->channels, data_->height, data_->width}; }
  std::int64_t batch() const override { return o_.batch; }
  std::int64_t batches_per_epoch() const override;
  Share share(std::int64_t batch) const override;
  void start(std::int64_t epoch, std::int64_t batch) override;
  Share load() override;
  Tensor loss() override;
  EvalSums evaluate() override;
  bool has_top5() const override { return data_->classes > 5; }
  std::string fingerprint() const override;
  std::string data_name() const override { return data_->name; }
  std::int64_t train_samples() const override { return data_->train.size(); }
  std::int64_t test_samples() const override { return data_->test.size(); }

 private:
  DataLoader::Options loader_options() const;
  std::shared_ptr<Module> model_;
  std::shared_ptr<const ImageDataset> data_;
  int rank_, workers_;
  Options o_;
  std::uint64_t data_fingerprint_;
  std::unique_ptr<DataLoader> loader_;
  Batch batch_;
};

}  // namespace laconic
