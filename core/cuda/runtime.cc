#include "core/cuda/runtime.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace laconic::cuda {
namespace {

constexpr std::size_t kAlign = 256, kSlab = std::size_t{2} << 20;

/// LACONIC_CUDA_NO_CACHE=1: every block comes from the driver and goes back to it. A pool would hide from a sanitizer
/// what a kernel does past the end of a block.
bool caches() {
#if defined(LACONIC_CUDA_EMULATED) && defined(__SANITIZE_ADDRESS__)
  return false;
#else
  static const bool wanted = [] {
    const char* const value = std::getenv("LACONIC_CUDA_NO_CACHE");
    return value == nullptr || std::string_view(value) != "1";
  }();
  return wanted;
#endif
}

cudaEvent_t event_of(const Mark& mark) { return static_cast<cudaEvent_t>(mark.get()); }
Mark mark_in(cudaStream_t stream, bool timed = false) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), "creating an event");
  const Mark mark(event, [](void* e) { cudaEventDestroy(static_cast<cudaEvent_t>(e)); });
  check(cudaEventRecord(event, stream), "recording an event");
  return mark;
}
void wait_in(cudaStream_t stream, const Mark& mark) {
  check(cudaStreamWaitEvent(stream, event_of(mark), 0), "waiting for an event");
}

struct OutOfMemory {};
class StreamPool;

/// What belongs to one device. Never destroyed: tensors may outlive main.
struct DeviceState {
  int index = 0;
  DeviceLimits limits;
  std::mutex mutex;                  // guards what follows
  std::vector<StreamPool*> streams;  // all
  std::vector<StreamPool*> idle;     // the streams of threads that have ended
  MemoryStats stats;
};

/// A stream, the blocks that were used on it last, and where its kernels report.
class StreamPool {
 public:
  explicit StreamPool(DeviceState& device) : device_(device) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, sizeof(Report), cudaHostAllocDefault), "pinning memory");
    report_ = new (memory) Report;
  }

  cudaStream_t stream() const { return stream_; }
  Report* report() const { return report_; }
  DeviceState& device() const { return device_; }

  Block take(std::size_t bytes) {
    bool fresh = false;
    const Block block = find_or_make(bytes, fresh);
    std::lock_guard lock(device_.mutex);
    device_.stats.from_system += fresh;
    device_.stats.count(block.capacity);
    return block;
  }

  void put(const Block& block, cudaStream_t last_used) {
    const Mark after = last_used == stream_ ? nullptr : mark_in(last_used);
    if (caches()) {
      std::lock_guard lock(mutex_);
      free_[block.capacity].push_back({block.data, after});
    } else {
      if (after) wait_in(stream_, after);
      check(cudaFreeAsync(block.data, stream_), "freeing memory");
    }
    std::lock_guard lock(device_.mutex);
    device_.stats.in_use_bytes -= block.capacity;
  }

  /// Hands cached blocks back to the driver, all but parts of slabs. Other threads may go on meanwhile: cudaFree itself
  /// waits until the device has done what still uses them.
  void trim() {
    std::lock_guard lock(mutex_);
    for (auto it = free_.lower_bound(kSlab / 2 + 1); it != free_.end(); it = free_.erase(it))
      for (const Free& f : it->second) {
        cudaFree(f.data);
        std::lock_guard device_lock(device_.mutex);
        device_.stats.reserved_bytes -= it->first;
      }
  }

 private:
  struct Free {
    std::byte* data;
    Mark after;  // null: in the order of this stream
  };

  Block find_or_make(std::size_t bytes, bool& fresh) {
    const std::size_t size = size_class(std::max<std::size_t>(1, bytes), kAlign);
    if (!caches()) {
      fresh = true;
      void* p = nullptr;
      made_or_full(cudaMallocAsync(&p, std::max<std::size_t>(1, bytes), stream_));
      return {static_cast<std::byte*>(p), size, this};
    }
    std::lock_guard lock(mutex_);
    for (auto it = free_.lower_bound(size); it != free_.end() && it->first <= size + size / 2; ++it) {
      if (it->second.empty()) continue;
      const Free f = take_ready(it->second);
      if (f.after) wait_in(stream_, f.after);
      return {f.data, it->first, this};
    }
    fresh = true;
    if (size > kSlab / 2) return {from_driver(size), size, this};
    if (static_cast<std::size_t>(slab_end_ - slab_next_) < size) {
      slab_next_ = from_driver(kSlab);
      slab_end_ = slab_next_ + kSlab;
    }
    return {std::exchange(slab_next_, slab_next_ + size), size, this};
  }

  /// The youngest of the last few blocks that nobody has to be waited for; else the youngest: what another thread gave
  /// back comes after all that it has asked for, which may be a step.
  static Free take_ready(std::vector<Free>& blocks) {
    constexpr std::size_t kTried = 8;
    std::size_t best = blocks.size() - 1;
    for (std::size_t i = blocks.size(); i-- > 0 && blocks.size() - i <= kTried;)
      if (!blocks[i].after || reached(blocks[i].after)) {
        best = i;
        break;
      }
    const Free f = blocks[best];
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(best));
    return f;
  }

  static void made_or_full(cudaError_t status) {
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw OutOfMemory{};
    }
    check(status, "allocating memory");
  }

  std::byte* from_driver(std::size_t size) {
    void* p = nullptr;
    made_or_full(cudaMalloc(&p, size));
    std::lock_guard lock(device_.mutex);
    device_.stats.reserved_bytes += size;
    return static_cast<std::byte*>(p);
  }

  DeviceState& device_;
  cudaStream_t stream_ = nullptr;
  Report* report_ = nullptr;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<Free>> free_;
  std::byte *slab_next_ = nullptr, *slab_end_ = nullptr;
};

struct Devices {
  std::vector<DeviceState*> all;
  std::string why_none;
};

/// All devices, read once.
const Devices& devices() {
  static const Devices& found = *[] {
    auto* made = new Devices;
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0) {
      cudaGetLastError();
      made->why_none = status == cudaSuccess ? "no CUDA-capable device is detected" : cudaGetErrorString(status);
      return made;
    }
    for (int i = 0; i < count; ++i) {
      cudaDeviceProp p{};
      if (cudaGetDeviceProperties(&p, i) != cudaSuccess) cudaGetLastError();  // its users are told
      auto* const d = made->all.emplace_back(new DeviceState);
      d->index = i;
      d->limits = {p.multiProcessorCount, p.totalGlobalMem, 10 * p.major + p.minor};
    }
    return made;
  }();
  return found;
}

DeviceState& device(int index) {
  require<Error>(index >= 0 && index < device_count(), "device cuda:", index, ": ",
                 device_count() == 0 ? concat("no CUDA device can be used here (", devices().why_none, ").")
                                     : concat("there are only ", device_count(), ", numbered from 0."),
                 " Use `device` cpu, or another index.");
  return *devices().all[static_cast<std::size_t>(index)];
}

/// The streams of one thread, for others to use when it has ended.
thread_local bool thread_ended = false;  // its streams are gone; memory may still be given back
struct ThreadStreams {
  std::vector<StreamPool*> by_device;
  int selected = -1;
  ~ThreadStreams() {
    thread_ended = true;
    for (StreamPool* s : by_device)
      if (s) {
        std::lock_guard lock(s->device().mutex);
        s->device().idle.push_back(s);
      }
  }
};
thread_local ThreadStreams mine;

StreamPool& my_pool() {
  if (mine.selected < 0) select(0);
  const auto at = static_cast<std::size_t>(mine.selected);
  if (mine.by_device.size() <= at) mine.by_device.resize(at + 1);
  if (!mine.by_device[at]) {
    DeviceState& d = device(mine.selected);
    std::unique_lock lock(d.mutex);
    StreamPool* pool = nullptr;
    if (!d.idle.empty()) {
      pool = d.idle.back();
      d.idle.pop_back();
      lock.unlock();
      check(cudaStreamSynchronize(pool->stream()), "synchronising");
      *pool->report() = {};  // nobody reads any more what it was for
    } else {
      lock.unlock();
      pool = new StreamPool(d);
      lock.lock();
      d.streams.push_back(pool);
    }
    mine.by_device[at] = pool;
  }
  return *mine.by_device[at];
}

void trim_device(DeviceState& d) {
  select(d.index);
  check(cudaDeviceSynchronize(), "synchronising");
  std::vector<StreamPool*> all;
  {
    std::lock_guard lock(d.mutex);
    all = d.streams;
  }
  for (StreamPool* s : all) s->trim();
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // so that it is told once
  throw Error(concat("cuda: ", what, ": ", cudaGetErrorString(status), "."));
}

int device_count() { return static_cast<int>(devices().all.size()); }
const std::string& why_no_device() { return devices().why_none; }

void select(int index) {
  if (mine.selected == index) return;
  device(index);
  check(cudaSetDevice(index), "selecting a device");
  mine.selected = index;
}

int selected() { return std::max(mine.selected, 0); }

cudaStream_t stream() { return my_pool().stream(); }

Report* report() { return my_pool().report(); }

void throw_findings() {
  Report* r = report();
  if (r->finding == 0) [[likely]]
    return;
  const Report found = std::exchange(*r, Report{});
  const char* what = static_cast<Finding>(found.finding) == Finding::label ? "label" : "index";
  throw DataError(concat(what, " ", found.value, " at position ", found.position, " is not in [0, ", found.limit,
                         "). Check the data, or build the model with more classes or a larger vocabulary."));
}

const DeviceLimits& limits() { return my_pool().device().limits; }

Block allocate(std::size_t bytes) {
  StreamPool& pool = my_pool();
  try {
    return pool.take(bytes);
  } catch (const OutOfMemory&) {
    trim_device(pool.device());
  }
  try {
    return pool.take(bytes);
  } catch (const OutOfMemory&) {
    const MemoryStats s = memory_stats();
    throw NoRoom(concat("device cuda:", pool.device().index, " has no room for ", bytes,
                        " bytes more: ", s.in_use_bytes, " of its ", pool.device().limits.memory_bytes,
                        " are in use here. Use a smaller `batch`."));
  }
}

void give_back(const Block& block) noexcept {
  auto& pool = *static_cast<StreamPool*>(block.pool);
  try {
    if (thread_ended) return pool.put(block, pool.stream());  // whatever this thread asked for, it has waited for
    select(pool.device().index);
    pool.put(block, stream());
  } catch (const Error&) {
    // The device is broken for good, and the next one who waits for it will be told: this memory is not needed again.
  }
}

MemoryStats memory_stats() {
  DeviceState& d = device(selected());
  std::lock_guard lock(d.mutex);
  return d.stats;
}

void reset_peak() {
  DeviceState& d = device(selected());
  std::lock_guard lock(d.mutex);
  d.stats.peak_bytes = d.stats.in_use_bytes;
}

void release_unused() { trim_device(device(selected())); }

std::string device_name() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, selected()), "asking for a device's name");
  return properties.name;
}
int compute_capability() { return device(selected()).limits.compute_capability; }

void synchronize() { check(cudaStreamSynchronize(stream()), "waiting for the device"); }

Mark mark() { return mark_in(stream()); }
Mark timed_mark() { return mark_in(stream(), true); }
double seconds_between(const Mark& earlier, const Mark& later) {
  synchronize(later);
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, event_of(earlier), event_of(later)), "asking for the time between events");
  return 1e-3 * static_cast<double>(milliseconds);
}
void wait(const Mark& mark) { wait_in(stream(), mark); }
void synchronize(const Mark& mark) { check(cudaEventSynchronize(event_of(mark)), "waiting for an event"); }
bool reached(const Mark& mark) {
  const cudaError_t status = cudaEventQuery(event_of(mark));
  if (status == cudaErrorNotReady)
    cudaGetLastError();  // NVIDIA's libraries would take it for an error of their own
  else
    check(status, "asking for an event");
  return status == cudaSuccess;
}

void copy_later(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream()), "copying");
}
void zero_later(void* to, std::size_t bytes) { check(cudaMemsetAsync(to, 0, bytes, stream()), "clearing"); }

std::shared_ptr<std::byte[]> pinned(std::size_t bytes) {
  struct Pool {
    std::mutex mutex;
    std::map<std::size_t, std::vector<std::byte*>> free;  // blocks by size, kept for good
  };
  static Pool& pool = *new Pool;
  std::size_t capacity = 4096;
  while (capacity < bytes) capacity += capacity / 2 / 4096 * 4096 + 4096;
  const auto give_back = [capacity](std::byte* block) {
    std::lock_guard lock(pool.mutex);
    pool.free[capacity].push_back(block);
  };
  {
    std::lock_guard lock(pool.mutex);
    auto& blocks = pool.free[capacity];
    if (!blocks.empty()) {
      std::byte* const block = blocks.back();
      blocks.pop_back();
      return {block, give_back};
    }
  }
  void* fresh = nullptr;
  check(cudaHostAlloc(&fresh, capacity, cudaHostAllocPortable), "pinning memory");
  return {static_cast<std::byte*>(fresh), give_back};
}

}  // namespace laconic::cuda
