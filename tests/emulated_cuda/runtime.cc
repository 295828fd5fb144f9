#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cuda_runtime.h"

#if defined(__SANITIZE_ADDRESS__)
#define EMULATED_HEAP 1  // the sanitizer watches its own heap
#endif

namespace emulated_cuda {

struct Stream {
  std::mutex mutex;  // of what follows
  std::deque<std::function<bool()>> queue;
  std::uint64_t asked = 0, done = 0;  // pieces of work
  bool under_way = false;             // one of them is, further up on this stack; with working() held
};

struct Event {
  Stream* stream = nullptr;
  std::uint64_t at = 0;  // done once the stream has done so many
  std::shared_ptr<std::chrono::steady_clock::time_point> time{};  // when it was, if that is to be known
};

namespace {

constexpr int kDevices = 4;
constexpr std::size_t kMemory = std::size_t{8} << 30, kGranule = 256;

/// One thing happens on all devices at a time: with streams that wait for each other there is no order of locks.
std::recursive_mutex& working() {
  static std::recursive_mutex& m = *new std::recursive_mutex;
  return m;
}

/// Device memory: one range that the host cannot touch while no work is done. First fit; neighbours join when freed.
class Memory {
 public:
  std::byte* take(std::size_t bytes) {
#ifdef EMULATED_HEAP
    bytes = std::max<std::size_t>(1, bytes);
#else
    bytes = std::max<std::size_t>(1, (bytes + kGranule - 1) / kGranule) * kGranule;
#endif
    std::lock_guard lock(mutex_);
    if (used_ + bytes > kMemory) return nullptr;
    std::byte* p = nullptr;
#ifdef EMULATED_HEAP
    p = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{kGranule}));
#else
    if (!begin_) {
      void* m = mmap(nullptr, kMemory, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (m == MAP_FAILED) return nullptr;
      madvise(m, kMemory, MADV_HUGEPAGE);  // opening and closing takes as long as there are pages
      begin_ = static_cast<std::byte*>(m);
      free_[begin_] = kMemory;
    }
    auto it = free_.begin();
    while (it != free_.end() && it->second < bytes) ++it;
    if (it == free_.end()) return nullptr;
    p = it->first;
    const std::size_t left = it->second - bytes;
    free_.erase(it);
    if (left > 0) free_[p + bytes] = left;
#endif
    blocks_[p] = bytes;
    used_ += bytes;
    return p;
  }

  bool give_back(void* q) {
    std::lock_guard lock(mutex_);
    const auto block = blocks_.find(static_cast<std::byte*>(q));
    if (block == blocks_.end()) return false;
    std::byte* p = block->first;
    std::size_t bytes = block->second;
    blocks_.erase(block);
    used_ -= bytes;
#ifdef EMULATED_HEAP
    ::operator delete (p, std::align_val_t{kGranule});
#else
    auto after = free_.lower_bound(p);
    if (after != free_.end() && p + bytes == after->first) {
      bytes += after->second;
      after = free_.erase(after);
    }
    if (after != free_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == p) {
        before->second += bytes;
        return true;
      }
    }
    free_[p] = bytes;
#endif
    return true;
  }

  bool holds(const void* q) {
    const auto* p = static_cast<const std::byte*>(q);
    std::lock_guard lock(mutex_);
    auto it = blocks_.upper_bound(const_cast<std::byte*>(p));
    if (it == blocks_.begin()) return false;
    --it;
    return p < it->first + it->second;
  }
  std::size_t used() {
    std::lock_guard lock(mutex_);
    return used_;
  }

  // Only with working() held.
  void open() {
#ifndef EMULATED_HEAP
    if (depth_++ == 0 && begin_) mprotect(begin_, kMemory, PROT_READ | PROT_WRITE);
#endif
  }
  void close() {
#ifndef EMULATED_HEAP
    if (--depth_ == 0 && begin_) mprotect(begin_, kMemory, PROT_NONE);
#endif
  }

 private:
  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::map<std::byte*, std::size_t> free_, blocks_;
  std::size_t used_ = 0;
  int depth_ = 0;
};

Memory& memory() {
  static Memory& m = *new Memory;
  return m;
}

struct Registry {
  std::mutex mutex;
  std::set<Stream*> streams;
  std::vector<Stream*> destroyed;  // events may still name them
  std::map<std::byte*, std::size_t> pinned;
};
Registry& registry() {
  static Registry& r = *new Registry;
  return r;
}

bool pinned(const void* q) {
  const auto* p = static_cast<const std::byte*>(q);
  std::lock_guard lock(registry().mutex);
  auto it = registry().pinned.upper_bound(const_cast<std::byte*>(p));
  if (it == registry().pinned.begin()) return false;
  --it;
  return p < it->first + it->second;
}

/// Does the stream's work until it has done `until` pieces, or one piece if `one`; false: a piece has to wait for what
/// the host has not asked for yet. With working() held and memory open. A piece that waits for one behind itself, by
/// way of other streams, would wait for ever: whatever the host asks for comes later still.
bool work_some(Stream& s, std::uint64_t until, bool one = false) {
  do {
    std::function<bool()> next;
    {
      std::lock_guard lock(s.mutex);
      if (s.done >= until) return true;
      if (s.under_way) {
        std::fprintf(stderr,
                     "emulated CUDA device: streams wait for each other for ever, as where two ranks send by NCCL "
                     "before they receive, in no group.\n");
        std::abort();
      }
      if (s.queue.empty()) return true;
      next = std::move(s.queue.front());
      s.queue.pop_front();
    }
    s.under_way = true;
    const bool done = next();
    s.under_way = false;
    std::lock_guard lock(s.mutex);
    if (!done) {
      s.queue.push_front(std::move(next));
      return false;
    }
    ++s.done;
  } while (!one);
  return true;
}

void work(Stream& s, std::uint64_t until, bool one = false) {
  while (true) {
    {
      std::lock_guard alone(working());
      memory().open();
      const bool done = work_some(s, until, one);
      memory().close();
      if (done || one) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

constexpr std::uint64_t kAll = ~std::uint64_t{0};

bool reached(const Event& e) {
  if (!e.stream) return true;
  std::lock_guard lock(e.stream->mutex);
  return e.stream->done >= e.at;
}

}  // namespace

void enqueue(cudaStream_t stream, std::function<void()> piece) {
  enqueue_when(stream, [piece = std::move(piece)] {
    piece();
    return true;
  });
}

std::uint64_t enqueue_when(cudaStream_t stream, std::function<bool()> piece) {
  if (!stream) {
    std::fprintf(stderr, "emulated CUDA device: work for the default stream, which waits for all others.\n");
    std::abort();
  }
  std::lock_guard lock(stream->mutex);
  stream->queue.push_back(std::move(piece));
  return ++stream->asked;
}

std::atomic<bool> broken{false};
void break_devices(bool now) {
  std::lock_guard alone(working());
  std::lock_guard lock(registry().mutex);
  if (!now)
    for (Stream* s : registry().streams) {  // what was asked for before is never done
      std::lock_guard stream_lock(s->mutex);
      s->queue.clear();
      s->done = s->asked;
    }
  broken = now;
}

void bring(cudaStream_t stream, std::uint64_t place) { work_some(*stream, place); }

}  // namespace emulated_cuda

using namespace emulated_cuda;

static thread_local int current_device = 0;
static thread_local cudaError_t last_error = cudaSuccess;
static cudaError_t told(cudaError_t e) { return last_error = e; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  *p = {};
  std::snprintf(p->name, sizeof p->name, "emulated");
  p->totalGlobalMem = kMemory;
  p->multiProcessorCount = 2;
  p->major = 9;
  p->maxThreadsPerMultiProcessor = 2048;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  std::vector<Stream*> all;
  {
    std::lock_guard lock(registry().mutex);
    all.assign(registry().streams.begin(), registry().streams.end());
  }
  for (Stream* s : all) work(*s, kAll);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
  }
  return "unknown error";
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = kMemory;
  *free = kMemory - memory().used();
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  *p = memory().take(bytes);
  return *p ? cudaSuccess : told(cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* p) {
  if (!p) return cudaSuccess;
  cudaDeviceSynchronize();
  return memory().give_back(p) ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t stream) {
  enqueue(stream, [p] { memory().give_back(p); });
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  *p = std::malloc(std::max<std::size_t>(bytes, 1));
  if (!*p) return cudaErrorMemoryAllocation;
  std::lock_guard lock(registry().mutex);
  registry().pinned[static_cast<std::byte*>(*p)] = std::max<std::size_t>(bytes, 1);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  cudaDeviceSynchronize();
  std::lock_guard lock(registry().mutex);
  registry().pinned.erase(static_cast<std::byte*>(p));
  std::free(p);
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind, cudaStream_t stream) {
  if (broken) return cudaErrorLaunchFailure;
  const bool reads_later = memory().holds(from) || pinned(from), writes_later = memory().holds(to) || pinned(to);
  const auto copy = [=](const void* source, std::size_t pitch) {
    for (std::size_t i = 0; i < height; ++i)
      std::memcpy(static_cast<std::byte*>(to) + i * to_pitch, static_cast<const std::byte*>(source) + i * pitch, width);
  };
  if (reads_later) {
    enqueue(stream, [=] { copy(from, from_pitch); });
  } else {  // as CUDA does: pageable memory may be used again when the call returns
    auto staged = std::make_shared<std::vector<std::byte>>(width * height);
    for (std::size_t i = 0; i < height; ++i)
      std::memcpy(staged->data() + i * width, static_cast<const std::byte*>(from) + i * from_pitch, width);
    enqueue(stream, [=] { copy(staged->data(), width); });
  }
  if (!writes_later) work(*stream, kAll);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, bytes, from, bytes, bytes, 1, kind, stream);
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  enqueue(stream, [=] { std::memset(p, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new Stream;
  std::lock_guard lock(registry().mutex);
  registry().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  work(*stream, kAll);
  std::lock_guard lock(registry().mutex);
  registry().streams.erase(stream);
  registry().destroyed.push_back(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (broken) return cudaErrorLaunchFailure;
  work(*stream, kAll);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (broken) return cudaErrorLaunchFailure;
  if (const Event e = *event; e.stream && e.stream != stream)
    enqueue_when(stream, [e] { return work_some(*e.stream, e.at); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new Event;
  if ((flags & cudaEventDisableTiming) == 0) (*event)->time = std::make_shared<std::chrono::steady_clock::time_point>();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (broken) return cudaErrorLaunchFailure;
  event->stream = stream;
  if (event->time) enqueue(stream, [time = event->time] { *time = std::chrono::steady_clock::now(); });
  std::lock_guard lock(stream->mutex);
  event->at = stream->asked;
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (broken) return cudaErrorLaunchFailure;
  if (reached(*event)) return cudaSuccess;
  work(*event->stream, event->at, true);  // who asks often enough gets there
  return told(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (broken) return cudaErrorLaunchFailure;
  if (event->stream) work(*event->stream, event->at);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  if (!from->time || !to->time) return cudaErrorInvalidValue;
  cudaEventSynchronize(from);
  cudaEventSynchronize(to);
  *milliseconds = std::chrono::duration<float, std::milli>(*to->time - *from->time).count();
  return cudaSuccess;
}
