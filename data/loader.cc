#include "data/loader.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/raw.h"

namespace laconic {

Batch without_left_out(Batch batch) {
  const std::int64_t* labels = batch.y.data<std::int64_t>();
  const auto left_out = std::count(labels, labels + batch.samples, kLeftOut);
  if (left_out == 0) return batch;
  const Shape image = batch.x.shape();
  const std::int64_t pixels = batch.samples > 0 ? image.elements() / batch.samples : 0;
  Batch rest = batch;
  rest.samples -= left_out, rest.global_samples -= left_out;
  rest.x = Tensor::empty({rest.samples, image[1], image[2], image[3]});
  rest.y = Tensor::empty({rest.samples}, DType::i64);
  float* to = rest.x.data<float>();
  std::int64_t* label = rest.y.data<std::int64_t>();
  for (std::int64_t i = 0; i < batch.samples; ++i) {
    if (labels[i] == kLeftOut) continue;
    to = std::copy_n(batch.x.data<float>() + i * pixels, pixels, to);
    *label++ = labels[i];
  }
  return rest;
}

ReadSample image_reader(std::shared_ptr<const ImageDataset> data, Split which, const Augment& augment,
                        std::uint64_t seed) {
  const ImageSplit& split = which == Split::train ? data->train : data->test;
  return [data, &split, transform = ImageTransform(*data, augment, seed)](std::int64_t epoch, std::int64_t sample,
                                                                          float* pixels) -> std::int64_t {
    transform(split.pixels.data() + sample * data->image_bytes(), epoch, sample, pixels);
    return split.labels[static_cast<std::size_t>(sample)];
  };
}

SampleReader reader_of_images(const Shape& image, ReadSample read, SampleName name) {
  return {.x = image,
          .read =
              [read = std::move(read)](std::int64_t epoch, std::int64_t sample, void* x, void* y) {
                const std::int64_t label = read(epoch, sample, static_cast<float*>(x));
                std::memcpy(y, &label, sizeof label);
              },
          .name = std::move(name)};
}

SampleReader reader_of(SharedDataset data, std::uint64_t seed) {
  const auto get = [data, seed](std::int64_t epoch, std::int64_t sample) {
    Random random(seed, Purpose::augment, static_cast<std::uint64_t>(epoch), static_cast<std::uint64_t>(sample));
    return data->get(sample, random);
  };
  SampleReader reader;
  if (data->size() == 0) return reader;
  const Example first = get(0, 0);
  reader.x = first.x.shape(), reader.x_type = first.x.dtype();
  reader.y = first.y.shape(), reader.y_type = first.y.dtype();
  reader.read = [get, like = reader](std::int64_t epoch, std::int64_t sample, void* x, void* y) {
    const Example e = get(epoch, sample);
    const auto write = [&](void* to, const char* name, const Tensor& from, const Shape& shape, DType type) {
      require<ShapeError>(from.shape() == shape && from.dtype() == type && from.device() == kCpu, "data: ", name,
                          " of sample ", sample, " is ", from.dtype(), " ", from.shape(), ", but of sample 0 ", type,
                          " ", shape, " in host memory.");
      std::memcpy(to, raw::to_layout(from.value(), Layout::plain).raw_data(), from.bytes());
    };
    write(x, "x", e.x, like.x, like.x_type), write(y, "y", e.y, like.y, like.y_type);
  };
  return reader;
}

DataLoader::DataLoader(SampleReader read, const Options& options)
    : sampler_(options.sampler),
      read_(std::move(read)),
      end_epoch_(options.epochs < 0 ? -1 : options.first_epoch + options.epochs),
      epoch_(options.first_epoch),
      step_(options.first_step) {
  require<UsageError>(options.threads >= 0 && options.threads <= 1024, "loader: ", options.threads,
                      " data threads, expected 0 to 1024. Correct `data-threads`.");
  slots_ = std::vector<Slot>(static_cast<std::size_t>(options.threads) + 1);
  require<ShapeError>(epoch_ >= 0 && step_ >= 0 && step_ <= steps_per_epoch(), "loader: cannot start at epoch ", epoch_,
                      ", step ", step_, ": an epoch has ", steps_per_epoch(), " steps.");
  for (std::size_t i = 0; i < slots_.size(); ++i) issue();
  try {
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();  // the destructor does not run for a half-made object, and a running thread must not outlive it
    throw;
  }
}

void DataLoader::stop() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void DataLoader::issue() {
  if (steps_per_epoch() == 0) return;
  if (step_ == steps_per_epoch()) ++epoch_, step_ = 0, order_.clear();
  if (end_epoch_ >= 0 && epoch_ >= end_epoch_) return;
  if (order_.empty()) order_ = sampler_.order(epoch_);

  const ShardedSampler::Part part = sampler_.part(step_);
  Slot& slot = slots_[static_cast<std::size_t>(issued_) % slots_.size()];  // only this thread writes issued_
  slot.samples.assign(order_.begin() + part.first, order_.begin() + part.first + part.count);
  slot.batch = {.x = Tensor::empty(read_.x.batch(part.count), read_.x_type),
                .y = Tensor::empty(read_.y.batch(part.count), read_.y_type),
                .samples = part.count,
                .global_samples = part.global_count,
                .first_global_position = part.first,
                .epoch = epoch_,
                .step_in_epoch = step_++};
  slot.ready = false;
  slot.error = nullptr;
  {
    std::lock_guard lock(mutex_);
    ++issued_;
  }
  work_.notify_one();
}

void DataLoader::fill(Slot& slot) const try {
  auto* x = static_cast<std::byte*>(slot.batch.x.raw_data());
  auto* y = static_cast<std::byte*>(slot.batch.y.raw_data());
  const std::size_t x_bytes = slot.samples.empty() ? 0 : slot.batch.x.bytes() / slot.samples.size();
  const std::size_t y_bytes = slot.samples.empty() ? 0 : slot.batch.y.bytes() / slot.samples.size();
  for (const std::uint32_t sample : slot.samples) {
    if (stop_.load(std::memory_order_relaxed)) return;
    slot.in_work.store(sample, std::memory_order_relaxed);
    read_.read(slot.batch.epoch, sample, x, y);
    x += x_bytes, y += y_bytes;
  }
  slot.in_work.store(-1, std::memory_order_relaxed);
} catch (...) {
  slot.error = std::current_exception();
}

std::string DataLoader::awaited() const {
  const auto next = static_cast<std::size_t>(taken_.load(std::memory_order_relaxed)) % slots_.size();
  const std::int64_t sample = slots_[next].in_work.load(std::memory_order_relaxed);
  if (sample < 0) return "";
  return read_.name ? read_.name(sample) : concat("sample ", sample);
}

void DataLoader::work() {
  for (;;) {
    Slot* slot = nullptr;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return stop_ || claimed_ < issued_; });
      if (stop_) return;
      slot = &slots_[static_cast<std::size_t>(claimed_++) % slots_.size()];
    }
    fill(*slot);
    {
      std::lock_guard lock(mutex_);
      slot->ready = true;
    }
    ready_.notify_one();
  }
}

bool DataLoader::next(Batch& batch) {
  if (failed_) std::rethrow_exception(failed_);
  if (taken_ == issued_) return false;
  Slot& slot = slots_[static_cast<std::size_t>(taken_) % slots_.size()];
  if (threads_.empty()) {
    fill(slot);
  } else {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return slot.ready; });
  }
  ++taken_;
  if (slot.error) {
    failed_ = slot.error;
    std::rethrow_exception(failed_);
  }
  batch = std::move(slot.batch);
  issue();
  return true;
}

ShardedSampler::ShardedSampler(const Options& options) : o_(options) {
  require<UsageError>(o_.batch >= 1, "sampler: batch is ", o_.batch, ", at least 1 is needed.");
  require<UsageError>(o_.ranks >= 1 && o_.rank >= 0 && o_.rank < o_.ranks, "sampler: rank ", o_.rank, " of ", o_.ranks,
                      " does not exist.");
  require<UsageError>(o_.samples >= 0 && o_.samples <= std::numeric_limits<std::uint32_t>::max(),
                      "sampler: ", o_.samples, " samples, at most 4,294,967,295 can be numbered.");
  // The global batch must not overflow, and one longer than the samples is the same as one of just all samples.
  o_.batch = std::min(o_.batch, std::max<std::int64_t>(o_.samples, 1));
  require<UsageError>(o_.begin >= 0 && o_.begin <= o_.samples, "sampler: begin is ", o_.begin, " of ", o_.samples,
                      " samples.");
  begin_ = o_.begin, end_ = o_.samples;
  if (o_.share) {
    const std::int64_t base = o_.samples / o_.ranks, longer = o_.samples % o_.ranks;
    begin_ = o_.rank * base + std::min<std::int64_t>(o_.rank, longer);
    end_ = begin_ + base + (o_.rank < longer ? 1 : 0);
  }
}

std::int64_t ShardedSampler::steps_per_epoch() const {
  const std::int64_t stride = o_.share ? o_.batch : o_.batch * o_.ranks;
  return (end_ - begin_ + stride - 1) / stride;
}

ShardedSampler::Part ShardedSampler::part(std::int64_t step) const {
  require<ShapeError>(step >= 0 && step < steps_per_epoch(), "sampler: step ", step, " is outside the epoch's ",
                      steps_per_epoch(), " steps.");
  Part p;
  const std::int64_t stride = o_.share ? o_.batch : o_.batch * o_.ranks;
  p.global_first = begin_ + step * stride;
  p.global_count = std::min(stride, end_ - p.global_first);
  p.first = std::min(end_, p.global_first + (o_.share ? 0 : o_.rank * o_.batch));
  p.count = std::min(o_.batch, end_ - p.first);
  return p;
}

std::vector<std::uint32_t> ShardedSampler::order(std::int64_t epoch) const {
  std::vector<std::uint32_t> order(static_cast<std::size_t>(o_.samples));
  std::iota(order.begin(), order.end(), 0u);
  if (o_.shuffle) Random(o_.seed, Purpose::shuffle, static_cast<std::uint64_t>(epoch)).shuffle(order);
  return order;
}

}  // namespace laconic
