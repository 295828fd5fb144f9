#pragma once
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/stream.h"
#include "core/tensor.h"
#include "data/loader.h"

namespace laconic {

/// Copies host tensors to a CUDA device without waiting for it, by way of pinned memory. For one thread.
class Upload {
 public:
  explicit Upload(Device device) : device_(device) {}
  ~Upload();  ///< waits for what is under way
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;

  /// A copy of the same shape, type and order (plain), in the order of the calling thread's work; of no other device
  /// than CUDA's: there it is the tensor itself.
  Tensor operator()(const Tensor& host);

 private:
  struct Staged {
    Pinned memory;
    Event copied;
  };
  Device device_;
  std::vector<Staged> under_way_;
};

/// Batches of a loader on the device that computes with them. For CUDA a thread of its own brings the next one there
/// while a step runs: it waits for the loader, copies into pinned memory and from there on a stream of its own. Up to
/// three batches are then in the device's memory: one in use, one ready, one on its way. Elsewhere this is the loader.
class BatchUpload {
 public:
  struct Options {
    Device device = kCpu;
    bool drop_left_out = false;  ///< without_left_out(), before anything is copied
  };
  BatchUpload(std::unique_ptr<DataLoader> loader, const Options& options);
  ~BatchUpload();
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  /// As DataLoader::next. What the calling thread asks of the device from now on finds the batch there.
  bool next(Batch& batch);

 private:
  struct Ready {
    Batch batch;
    Event copied;
    bool any = true;  // false: the last one has been taken
    std::exception_ptr error;
  };
  bool load(Batch& batch);
  bool take(Batch& batch);
  Ready prepare(Upload& upload);
  void work();

  std::unique_ptr<DataLoader> loader_;
  Options o_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool full_ = false, stop_ = false;  // guarded, as is
  Ready ready_;
  std::thread thread_;  // none for other devices
};

}  // namespace laconic
