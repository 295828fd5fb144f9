#pragma once
#include <memory>

#include "data/loader.h"
#include "dist/trainer/sample_workload.h"

namespace laconic {

/// Labelled images, as a classifier sees them.
struct ImageSamples {
  std::string name;  ///< of the data, for messages
  int classes = 0;
  Shape image;  ///< [C, H, W]
  std::int64_t train_size = 0, test_size = 0;
  ReadSample train, test;     ///< augmented; as evaluated
  std::uint64_t content = 0;  ///< fingerprint of the data
  std::uint64_t sizes = 0;    ///< and of the sizes of its files, where there are many
  std::string augment;        ///< what `train` does, for the fingerprint of a training
  SampleName train_name{}, test_name{};
  /// Per channel, of pixels / 255; saved with the weights. Empty: they are the model's own.
  std::vector<float> mean{}, std{};
};

/// Trains a classifier of images: softmax cross entropy, mean over the batch, with that of auxiliary heads
/// (layers/loss.h); evaluates top-1 and top-5 errors.
class ImageClassification final : public SampleWorkload {
 public:
  struct Options {
    std::int64_t batch = 32;  ///< B, per worker
    std::int64_t eval_batch = 250;
    bool shuffle = true;
    Augment augment{};  ///< of a data set in memory
    float label_smoothing = 0;
    int data_threads = 1;
    std::uint64_t seed = 0;
  };
  /// model : images [n, C, H, W] -> logits [n, classes].   The data set is shared by all workers of a process.
  ImageClassification(std::shared_ptr<Module> model, std::shared_ptr<const ImageDataset> data, int rank, int workers,
                      const Options& options);
  /// Takes images from anywhere.
  ImageClassification(std::shared_ptr<Module> model, ImageSamples samples, int rank, int workers,
                      const Options& options);

  Tensor loss() override;
  std::function<Tensor()> ghost_loss(std::int64_t samples) override;
  EvalSums evaluate(const Stop& stop) override;
  bool has_top5() const override { return samples_.classes > 5; }
  std::string fingerprint() const override;
  void describe(RunInfo& info) const override {
    info.data = samples_.name, info.train_samples = samples_.train_size, info.test_samples = samples_.test_size;
  }
  void describe_weights(StateDict& weights) const override;

 private:
  ImageSamples samples_;
  Options o_;
};

}  // namespace laconic
