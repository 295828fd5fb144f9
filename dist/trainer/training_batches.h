#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "dist/trainer/upload.h"
#include "dist/trainer/workload.h"

namespace laconic {

/// One worker's batches of a training, on the device that computes with them: the part of a Workload that has no loss.
class TrainingBatches {
 public:
  TrainingBatches(SampleReader reader, const ShardedSampler::Options& sampler, int data_threads)
      : reader_(std::move(reader)), sampler_(sampler), data_threads_(data_threads) {}
  void set_device(Device device) { device_ = device; }

  // As Workload has them.
  std::int64_t per_epoch() const { return sampler_.steps_per_epoch(); }
  Share share(std::int64_t epoch, std::int64_t batch) const;
  std::int64_t deal_rest(const DataPosition& position);
  void start(std::int64_t epoch, std::int64_t batch);
  Share load();

  std::int64_t held() const {  // DataLoader, BatchUpload
    return device_.kind == Device::Kind::cuda ? 3 : data_threads_ + 2;
  }

  const SampleReader& reader() const { return reader_; }
  const Batch& loaded() const { return batch_; }
  /// Goes over this worker's share of a test set, `eval_batch` samples at a time, in the model's evaluation mode and
  /// without recording. Calls f with every batch that has samples, until `stop` says true.
  ///   drop_left_out : samples that could not be read are in no batch
  void test(Module& model, const SampleReader& reader, std::int64_t samples, std::int64_t eval_batch,
            bool drop_left_out, const Stop& stop, const std::function<void(const Batch& batch)>& f) const;

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
