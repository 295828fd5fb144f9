#include "compress/mirrored.h"

#include <deque>
#include <utility>

#include "core/base/error.h"
#include "core/stream.h"

namespace laconic::compress {
namespace {

/// Pinned memory whose copies are under way, the oldest first.
class UnderWay {
 public:
  ~UnderWay() {
    for (const auto& [event, memory] : all_) try {
        event.synchronize();
      } catch (const Error&) {
        // The device is broken, and its next wait tells so.
      }
  }
  void keep(Pinned memory, Device device) {
    while (!all_.empty() && all_.front().first.reached()) all_.pop_front();
    all_.emplace_back(Event::now(device), std::move(memory));
  }

 private:
  std::deque<std::pair<Event, Pinned>> all_;
};
thread_local UnderWay under_way;

}  // namespace

std::unique_ptr<Storage> copy_on(Device device, const void* from, Device from_device, std::size_t bytes) {
  auto copy = std::make_unique<Storage>(bytes, device);
  const auto is_cuda = [](Device d) { return d.kind == Device::Kind::cuda; };
  if (!is_cuda(device) || is_cuda(from_device)) {
    copy_bytes(copy->data(), device, from, from_device, bytes);
    return copy;
  }
  Pinned pinned(bytes, device);
  copy_bytes(pinned.data(), kCpu, from, from_device, bytes);
  copy_bytes_later(copy->data(), device, pinned.data(), kCpu, bytes);
  under_way.keep(std::move(pinned), device);
  return copy;
}

}  // namespace laconic::compress
