#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/tensor.h"
#include "data/augment.h"
#include "data/dataset.h"
#include "data/image_dataset.h"
#include "data/sampler.h"

namespace laconic {

/// What one worker computes with in one step, in host memory. Tensors are shared, never written again: keep them as
/// long as you like.
struct Batch {
  Tensor x;                                ///< what the model reads, [samples, ...]: images float32 [samples, C, H, W]
  Tensor y;                                ///< what it is to say, [samples, ...]: labels int64 [samples]
  std::int64_t samples = 0;                ///< of this worker: B, or fewer (even 0) in the last step of an epoch
  std::int64_t global_samples = 0;         ///< of all workers in this step (this worker's own in an evaluation)
  std::int64_t first_global_position = 0;  ///< of the first sample in the epoch's order: part of dropout's random key
  std::int64_t epoch = 0, step_in_epoch = 0;  ///< both from 0
};

/// Writes one sample's pixels (already normalised) and returns its label, or kLeftOut. Called from data threads,
/// several at once.
using ReadSample = std::function<std::int64_t(std::int64_t epoch, std::int64_t sample, float* pixels)>;
/// What a sample is called in messages: the path of its file. From any thread.
using SampleName = std::function<std::string(std::int64_t sample)>;
/// The label of a sample that could not be read, and that an evaluation counts nowhere.
inline constexpr std::int64_t kLeftOut = -1;

/// Samples of one shape and type for a loader, which writes each into its place in a batch.
struct SampleReader {
  Shape x{}, y{};
  DType x_type = DType::f32, y_type = DType::i64;
  /// Writes a sample; the places are as large as shape and type say. Called from data threads, several at once.
  std::function<void(std::int64_t epoch, std::int64_t sample, void* x, void* y)> read;
  SampleName name{};
};
SampleReader reader_of_images(const Shape& image, ReadSample read, SampleName name = {});  ///< labels may be kLeftOut
/// Draws for augmentation come from `seed`. throws ShapeError, when it reads, if a sample has another shape or type
/// than the first
SampleReader reader_of(SharedDataset data, std::uint64_t seed);

/// Those images of a batch that were read: the batch itself where none was left out.
Batch without_left_out(Batch batch);

enum class Split { train, test };

/// Reads stored images, augmented by draws from `seed`. Shares the data set.
ReadSample image_reader(std::shared_ptr<const ImageDataset> data, Split split, const Augment& augment,
                        std::uint64_t seed);

/// Batches in the sampler's order, prepared ahead by background threads. The sequence is a pure function of the
/// options, the same for any number of threads, and may start anywhere: nothing but (epoch, step) is needed to resume.
/// At most threads + 1 batches are prepared or waiting at a time. One consumer thread; it alone allocates memory.
class DataLoader {
 public:
  struct Options {
    ShardedSampler::Options sampler;
    int threads = 1;                               ///< D; 0: prepared within next()
    std::int64_t first_epoch = 0, first_step = 0;  ///< where to start; first_step may be an epoch's number of steps
    std::int64_t epochs = -1;                      ///< how many, counting the first, possibly begun one; -1: no end
  };
  DataLoader(SampleReader read, const Options& options);
  ~DataLoader() { stop(); }  ///< does not wait for more than the samples in work
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// The next batch, or false after the last one.
  /// throws what reading one of its samples threw, also at every later call
  bool next(Batch& batch);
  /// What is being read for the next batch: the name of a sample, or its number where it has none; "" if none is.
  /// From any thread.
  std::string awaited() const;

  const ShardedSampler& sampler() const { return sampler_; }
  std::int64_t steps_per_epoch() const { return sampler_.steps_per_epoch(); }

 private:
  struct Slot {
    Batch batch;
    std::vector<std::uint32_t> samples;
    std::atomic<std::int64_t> in_work{-1};  // the sample that is being read; -1: none
    bool ready = false;
    std::exception_ptr error;
  };
  void stop();
  void issue();
  void fill(Slot& slot) const;
  void work();

  const ShardedSampler sampler_;
  const SampleReader read_;
  const std::int64_t end_epoch_;        // -1: none
  std::int64_t epoch_, step_;           // of the next batch to issue
  std::vector<std::uint32_t> order_;    // of epoch_, empty before its first batch is issued
  std::vector<Slot> slots_;             // a ring: batch number i lies in slot i mod size
  std::atomic<std::int64_t> taken_{0};  // batches handed out
  std::exception_ptr failed_;

  std::mutex mutex_;
  std::condition_variable work_, ready_;
  std::int64_t issued_ = 0, claimed_ = 0;  // guarded, as are Slot::ready and the hand-over of slots
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

}  // namespace laconic
