#include "core/stream.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "core/dispatch.h"
#ifdef LACONIC_CUDA
#include "core/cuda/report.h"
#include "core/cuda/runtime.h"
#endif

namespace laconic {
namespace {

bool on_cuda(Device device) { return device.kind == Device::Kind::cuda; }

/// Copies where no CUDA device takes part.
void copy_on_host(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (to_device == kGhost) return;
  HostAccess reading(from_device), writing(to_device);
  if (from_device == kGhost)
    std::memset(to, 0, bytes);
  else
    std::memcpy(to, from, bytes);
}

}  // namespace

#ifdef LACONIC_CUDA

int cuda_devices() { return cuda::device_count(); }
std::string why_no_cuda_device() { return cuda::why_no_device(); }
int cuda_compute_capability(int index) { return cuda::limits_of(index).compute_capability; }

std::string cuda_device_name(int index) {
  cuda::select(index);
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, index), "asking for a device's name");
  return properties.name;
}

void synchronize(Device device) {
  if (!on_cuda(device)) return;
  cuda::select(device.index);
  cuda::check(cudaStreamSynchronize(cuda::stream()), "waiting for the device");
  cuda::throw_findings();
}

void throw_findings(Device device) {
  if (!on_cuda(device)) return;
  cuda::select(device.index);
  cuda::throw_findings();
}

struct Event::State {
  cudaEvent_t event = nullptr;
  ~State() { cudaEventDestroy(event); }
};

Event Event::now(Device device) {
  Event e;
  if (!on_cuda(device)) return e;
  cuda::select(device.index);
  e.device_ = device;
  e.state_ = std::make_shared<State>();
  cuda::check(cudaEventCreateWithFlags(&e.state_->event, cudaEventDisableTiming), "creating an event");
  cuda::check(cudaEventRecord(e.state_->event, cuda::stream()), "recording an event");
  return e;
}

void Event::wait() const {
  if (!state_) return;
  cuda::select(device_.index);
  cuda::check(cudaStreamWaitEvent(cuda::stream(), state_->event, 0), "waiting for an event");
}

void Event::synchronize() const {
  if (state_) cuda::check(cudaEventSynchronize(state_->event), "waiting for an event");
}

/// What the calling thread asks of one device from now on comes after what it has asked of another.
static void streams_wait(Device later, Device earlier) {
  cuda::select(earlier.index);
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  cuda::check(cudaEventRecord(event, cuda::stream()), "recording an event");
  cuda::select(later.index);
  cuda::check(cudaStreamWaitEvent(cuda::stream(), event, 0), "waiting for an event");
  cudaEventDestroy(event);
}

bool Event::reached() const {
  if (!state_) return true;
  const cudaError_t status = cudaEventQuery(state_->event);
  if (status != cudaErrorNotReady) cuda::check(status, "asking for an event");
  return status == cudaSuccess;
}

static std::atomic<std::uint64_t> to_host_bytes{0};
std::uint64_t copied_to_host_bytes() { return to_host_bytes; }

void copy_bytes_later(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (!on_cuda(to_device) && !on_cuda(from_device)) return copy_on_host(to, to_device, from, from_device, bytes);
  if (to_device == kGhost) return;
  require<Error>(from_device != kGhost, "copy: a ghost has no values for ", to_device, ".");
  if (!on_cuda(to_device)) to_host_bytes.fetch_add(bytes, std::memory_order_relaxed);
  HostAccess reading(from_device), writing(to_device);
  const bool between = on_cuda(to_device) && on_cuda(from_device) && to_device != from_device;
  if (between) streams_wait(to_device, from_device);
  cuda::select(on_cuda(to_device) ? to_device.index : from_device.index);
  cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cuda::stream()), "copying");
  if (between) streams_wait(from_device, to_device);  // before the source is written again
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  HostAccess reading(from_device), writing(to_device);
  copy_bytes_later(to, to_device, from, from_device, bytes);
  if (on_cuda(to_device) != on_cuda(from_device)) synchronize(on_cuda(to_device) ? to_device : from_device);
}

void zero_bytes(void* to, Device device, std::size_t bytes) {
  if (bytes == 0) return;
  if (!on_cuda(device)) return on_device(device, [&] { std::memset(to, 0, bytes); });
  cuda::select(device.index);
  cuda::check(cudaMemsetAsync(to, 0, bytes, cuda::stream()), "clearing");
}

namespace {

/// Pinned blocks by size, kept for good.
struct PinnedPool {
  std::mutex mutex;
  std::map<std::size_t, std::vector<std::byte*>> free;
};
PinnedPool& pinned_pool() {
  static PinnedPool& pool = *new PinnedPool;
  return pool;
}

}  // namespace

Pinned::Pinned(std::size_t bytes, Device device) : bytes_(bytes), device_(device) {
  capacity_ = 4096;
  while (capacity_ < bytes) capacity_ += capacity_ / 2 / 4096 * 4096 + 4096;
  if (on_cuda(device)) {
    PinnedPool& pool = pinned_pool();
    {
      std::lock_guard lock(pool.mutex);
      auto& blocks = pool.free[capacity_];
      if (!blocks.empty()) {
        data_ = blocks.back();
        blocks.pop_back();
        return;
      }
    }
    cuda::select(device.index);
    void* p = nullptr;
    cuda::check(cudaHostAlloc(&p, capacity_, cudaHostAllocPortable), "pinning memory");
    data_ = static_cast<std::byte*>(p);
    return;
  }
  data_ = static_cast<std::byte*>(std::malloc(capacity_));
  if (!data_) throw std::bad_alloc();
}

void Pinned::release() {
  if (!data_) return;
  if (on_cuda(device_)) {
    PinnedPool& pool = pinned_pool();
    std::lock_guard lock(pool.mutex);
    pool.free[capacity_].push_back(data_);
  } else {
    std::free(data_);
  }
  data_ = nullptr;
}

#else

struct Event::State {};

int cuda_devices() { return 0; }
std::string why_no_cuda_device() { return "this build has no CUDA"; }
std::string cuda_device_name(int index) { detail::no_cuda(Device{Device::Kind::cuda, index}); }
int cuda_compute_capability(int index) { detail::no_cuda(Device{Device::Kind::cuda, index}); }
void synchronize(Device) {}
void throw_findings(Device) {}
std::uint64_t copied_to_host_bytes() { return 0; }
Event Event::now(Device) { return {}; }
void Event::wait() const {}
void Event::synchronize() const {}
bool Event::reached() const { return true; }

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (on_cuda(to_device)) detail::no_cuda(to_device);
  if (on_cuda(from_device)) detail::no_cuda(from_device);
  copy_on_host(to, to_device, from, from_device, bytes);
}
void copy_bytes_later(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  copy_bytes(to, to_device, from, from_device, bytes);
}
void zero_bytes(void* to, Device device, std::size_t bytes) {
  if (bytes > 0) on_device(device, [&] { std::memset(to, 0, bytes); });
}

Pinned::Pinned(std::size_t bytes, Device device)
    : data_(static_cast<std::byte*>(std::malloc(bytes + 1))), bytes_(bytes), capacity_(bytes), device_(device) {
  if (!data_) throw std::bad_alloc();
}
void Pinned::release() {
  std::free(data_);
  data_ = nullptr;
}

#endif

}  // namespace laconic
