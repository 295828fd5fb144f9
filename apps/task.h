#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "dist/trainer/workload.h"

namespace laconic {

struct TrainOptions;

/// What an app trains, for all workers of this process and all of its runs (--repeat).
class Task {
 public:
  virtual ~Task() = default;
  /// The model's name in the zoo.
  virtual std::string model_name(const TrainOptions& options) const = 0;
  /// One worker's part. Called by every worker on its own thread; data is read by the first.
  virtual std::unique_ptr<Workload> workload(const TrainOptions& options, int rank, int workers) = 0;
  /// What rank 0's workload is good for when a run has ended, on the main thread: its weights are there, its trainer is
  /// not.
  virtual void finish(const TrainOptions&, Workload&) {}
};

/// Something that several threads need and the first of them makes.
template <class T>
class Once {
 public:
  explicit Once(std::function<T()> make) : make_(std::move(make)) {}
  std::shared_ptr<const T> get() {
    std::lock_guard lock(mutex_);
    if (!made_) made_ = std::make_shared<const T>(make_());
    return made_;
  }

 private:
  std::function<T()> make_;
  std::mutex mutex_;
  std::shared_ptr<const T> made_;
};

}  // namespace laconic
