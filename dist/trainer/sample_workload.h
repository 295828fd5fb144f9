#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "dist/trainer/upload.h"
#include "dist/trainer/workload.h"

namespace laconic {

/// Training on single samples: one worker's batches of them, on the device that computes with them. What samples are,
/// their loss and their measures are the derived class's.
class SampleWorkload : public Workload {
 public:
  Module& model() override { return *model_; }
  void set_device(Device device) override { device_ = device; }
  std::int64_t batch() const override { return sampler_.options().batch; }
  std::int64_t batches_per_epoch() const override { return sampler_.steps_per_epoch(); }
  Share share(std::int64_t epoch, std::int64_t batch) const override;
  std::int64_t deal_rest(const DataPosition& position) override;
  void start(std::int64_t epoch, std::int64_t batch) override;
  Share load() override;
  std::int64_t batches_held() const override {  // DataLoader, BatchUpload
    return device_.kind == Device::Kind::cuda ? 3 : data_threads_ + 2;
  }

 protected:
  SampleWorkload(std::shared_ptr<Module> model, SampleReader reader, const ShardedSampler::Options& sampler,
                 int data_threads)
      : model_(std::move(model)), reader_(std::move(reader)), sampler_(sampler), data_threads_(data_threads) {}

  const SampleReader& reader() const { return reader_; }
  const Batch& loaded() const { return batch_; }
  /// Goes over this worker's share of a test set, `eval_batch` samples at a time, in the model's evaluation mode and
  /// without recording. Calls f with every batch that has samples, until `stop` says true.
  ///   drop_left_out : samples that could not be read are in no batch
  void test(const SampleReader& reader, std::int64_t samples, std::int64_t eval_batch, bool drop_left_out,
            const Stop& stop, const std::function<void(const Batch& batch)>& f) const;

  const std::shared_ptr<Module> model_;

 private:
  const ShardedSampler& sampler(std::int64_t epoch) const { return rest_ && epoch == rest_epoch_ ? *rest_ : sampler_; }

  SampleReader reader_;
  ShardedSampler sampler_;
  std::optional<ShardedSampler> rest_;            // of one epoch that other numbers of workers have begun
  std::int64_t rest_epoch_ = 0, next_epoch_ = 0;  // next_epoch_: after the loader's last one
  int data_threads_;
  Device device_ = kCpu;
  std::unique_ptr<BatchUpload> loader_;
  Batch batch_;
};

}  // namespace laconic
