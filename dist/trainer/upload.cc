#include "dist/trainer/upload.h"

#include <cstring>

#include "dist/engine/busy.h"

namespace laconic {

Upload::~Upload() {
  try {
    for (const Staged& s : under_way_) s.copied.synchronize();
  } catch (const Error&) {  // the device is broken, and reads no more
  }
}

Tensor Upload::operator()(const Tensor& host) {
  if (device_.kind != Device::Kind::cuda) return host;
  const Tensor there = Tensor::empty(host.shape(), host.dtype(), device_);
  if (host.bytes() == 0) return there;
  std::erase_if(under_way_, [](const Staged& s) { return s.copied.reached(); });
  Staged& staged = under_way_.emplace_back(Pinned(host.bytes(), device_), Event());
  std::memcpy(staged.memory.data(), host.raw_data(), host.bytes());
  copy_bytes_later(there.raw_data(), device_, staged.memory.data(), kCpu, host.bytes());
  staged.copied = Event::now(device_);
  return there;
}

BatchUpload::BatchUpload(std::unique_ptr<DataLoader> loader, const Options& options)
    : loader_(std::move(loader)), o_(options) {
  if (o_.device.kind == Device::Kind::cuda) thread_ = std::thread([this] { work(); });
}

BatchUpload::~BatchUpload() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool BatchUpload::load(Batch& batch) {
  if (!loader_->next(batch)) return false;
  if (o_.drop_left_out) batch = without_left_out(std::move(batch));
  return true;
}

BatchUpload::Ready BatchUpload::prepare(Upload& upload) {
  Ready ready;
  try {
    ready.any = load(ready.batch);
    if (!ready.any) return ready;
    ready.batch.x = upload(ready.batch.x);
    ready.batch.y = upload(ready.batch.y);
    ready.copied = Event::now(o_.device);
  } catch (...) {
    ready.error = std::current_exception();
  }
  return ready;
}

void BatchUpload::work() {
  Upload upload(o_.device);
  for (bool more = true; more;) {
    Ready ready = prepare(upload);
    more = ready.any && !ready.error;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !full_ || stop_; });
    if (stop_) return;
    ready_ = std::move(ready);
    full_ = true;
    lock.unlock();
    changed_.notify_all();
  }
}

bool BatchUpload::next(Batch& batch) {
  const dist::Busy busy(dist::Busy::With::files, "waits for its data", [this] { return loader_->awaited(); });
  return thread_.joinable() ? take(batch) : load(batch);
}

bool BatchUpload::take(Batch& batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return full_; });
  if (ready_.error) std::rethrow_exception(ready_.error);  // stays, for every later call
  if (!ready_.any) return false;
  Ready taken = std::move(ready_);
  full_ = false;
  lock.unlock();
  changed_.notify_all();
  taken.copied.wait();
  batch = std::move(taken.batch);
  return true;
}

}  // namespace laconic
