#include "core/stream.h"

#include <atomic>
#include <cstring>

#include "core/cuda/device.h"
#include "core/dispatch.h"

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

void nothing() {}

/// What the calling thread asks of one device from now on comes after what it has asked of another.
void streams_wait(Device later, Device earlier) {
  cuda_only([&] {
    cuda::select(earlier.index);
    const cuda::Mark mark = cuda::mark();
    cuda::select(later.index);
    cuda::wait(mark);
  });
}

std::atomic<std::uint64_t> to_host_bytes{0}, waits{0};

}  // namespace

int cuda_devices() {
  if constexpr (kCudaBuilt) return cuda::device_count();
  return 0;
}
std::string why_no_cuda_device() {
  if constexpr (kCudaBuilt) return cuda::why_no_device();
  return "this build has no CUDA";
}
std::string cuda_device_name(int index) {
  const Device device{Device::Kind::cuda, index};
  return on_device(
      device, [] { return std::string(); }, [] { return cuda::device_name(); });
}
int cuda_compute_capability(int index) {
  const Device device{Device::Kind::cuda, index};
  return on_device(
      device, [] { return 0; }, [] { return cuda::compute_capability(); });
}

void synchronize(Device device) {
  on_device(device, nothing, [] {
    waits.fetch_add(1, std::memory_order_relaxed);
    cuda::synchronize();
    cuda::throw_findings();
  });
}
void throw_findings(Device device) {
  on_device(device, nothing, [] { cuda::throw_findings(); });
}

Event Event::now(Device device) {
  Event e;
  e.device_ = device;
  on_device(device, nothing, [&] { e.mark_ = cuda::mark(); });
  return e;
}
void Event::wait() const {
  if (mark_) on_device(device_, nothing, [&] { cuda::wait(mark_); });
}
void Event::synchronize() const {
  if (!mark_) return;
  waits.fetch_add(1, std::memory_order_relaxed);
  cuda_only([&] { cuda::synchronize(mark_); });
}
bool Event::reached() const {
  if constexpr (kCudaBuilt) return !mark_ || cuda::reached(mark_);
  return true;
}

std::uint64_t copied_to_host_bytes() { return to_host_bytes; }
std::uint64_t waits_for_devices() { return waits; }

void copy_bytes_later(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  if (bytes == 0) return;
  if (!on_cuda(to_device) && !on_cuda(from_device)) return copy_on_host(to, to_device, from, from_device, bytes);
  if (to_device == kGhost) return;
  require<Error>(from_device != kGhost, "copy: a ghost has no values for ", to_device, ".");
  if (!on_cuda(to_device)) to_host_bytes.fetch_add(bytes, std::memory_order_relaxed);
  HostAccess reading(from_device), writing(to_device);
  const bool between = on_cuda(to_device) && on_cuda(from_device) && to_device != from_device;
  if (between) streams_wait(to_device, from_device);
  on_device(on_cuda(to_device) ? to_device : from_device, nothing, [&] { cuda::copy_later(to, from, bytes); });
  if (between) streams_wait(from_device, to_device);  // before the source is written again
}

void copy_bytes(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) {
  HostAccess reading(from_device), writing(to_device);
  copy_bytes_later(to, to_device, from, from_device, bytes);
  if (on_cuda(to_device) != on_cuda(from_device)) synchronize(on_cuda(to_device) ? to_device : from_device);
}

void zero_bytes(void* to, Device device, std::size_t bytes) {
  if (bytes == 0) return;
  on_device(
      device, [&] { std::memset(to, 0, bytes); }, [&] { cuda::zero_later(to, bytes); });
}

Pinned::Pinned(std::size_t bytes, Device device) : bytes_(bytes) {
  const auto plain = [&] { return std::shared_ptr<std::byte[]>(new std::byte[bytes]); };
  memory_ = on_cuda(device) ? on_device(device, plain, [&] { return cuda::pinned(bytes); }) : plain();
}

}  // namespace laconic
