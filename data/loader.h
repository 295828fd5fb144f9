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
#include "data/dataset.h"
#include "data/image_dataset.h"

namespace laconic {

/// Which samples worker `rank` of N = `ranks` takes in which step. Every sample belongs to exactly one worker and one
/// step of an epoch, for any N and batch size B. No state: any (epoch, step) can be asked for at any time.
///
/// Training (share = false): global batch i is positions i N B … (i+1) N B - 1 of the epoch's order, worker k takes the
/// k-th B of them, literally. The last batch of an epoch is short when N B does not divide the samples; then a worker
/// may have fewer than B samples, or none. All workers have the same number of steps, ceil(samples / (N B)).
///
/// Evaluation (share = true): worker k takes the k-th of N nearly equal contiguous parts, in order, B at a time;
/// workers may differ in their number of steps by one.
class ShardedSampler {
 public:
  struct Options {
    std::int64_t samples = 0;
    int ranks = 1, rank = 0;
    std::int64_t batch = 1;  ///< B, per worker
    bool shuffle = true;     ///< false: positions are sample numbers
    std::uint64_t seed = 0;
    bool share = false;
    std::int64_t begin = 0;  ///< training: positions before this one are left out
  };
  /// throws UsageError if a number makes no sense (batch < 1, rank not in 0 … ranks-1)
  explicit ShardedSampler(const Options& options);

  /// One worker's part of one step, as positions in the epoch's order.
  struct Part {
    std::int64_t first = 0, count = 0;                ///< this worker's part; `first` <= samples
    std::int64_t global_first = 0, global_count = 0;  ///< the part of all workers (the own when share = true)
  };
  Part part(std::int64_t step) const;  ///< 0 <= step < steps_per_epoch()

  std::int64_t steps_per_epoch() const;

  /// order[position] = sample. Fisher-Yates from the key (seed, shuffle, epoch): the same on every rank, with no state.
  /// Cost: about 10 ns a sample.
  std::vector<std::uint32_t> order(std::int64_t epoch) const;

  const Options& options() const { return o_; }

 private:
  Options o_;
  std::int64_t begin_ = 0, end_ = 0;  // positions that concern this worker
};

/// What one worker computes with in one step, in host memory. Tensors are shared, never written again: keep them as
/// long as you like.
struct Batch {
  Tensor x;                                ///< the model's input, [samples, ...]: images are float32 [samples, C, H, W]
  Tensor y;                                ///< the target, [samples, ...]: labels are int64 [samples]
  std::int64_t samples = 0;                ///< samples of this worker: B, or fewer (even 0) in an epoch's last step
  std::int64_t global_samples = 0;         ///< samples of all workers in this step (of this worker in an evaluation)
  std::int64_t first_global_position = 0;  ///< the first sample's place in the epoch's order: it keys dropout
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
    std::int64_t first_epoch = 0, first_step = 0;  ///< the start; first_step may be an epoch's number of steps
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
  std::int64_t epoch_, step_;           // the next batch to issue
  std::vector<std::uint32_t> order_;    // the order of epoch_; empty before its first batch is issued
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
