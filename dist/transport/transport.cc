#include "dist/transport/transport.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "dist/engine/hop_trace.h"

namespace laconic::dist {

void ask_for_short_slices() {
  struct {
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = 0;  // SCHED_OTHER
  attributes.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  attributes.runtime = 100'000;  // ns
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void Transport::post(Request& request, int priority) {
  if (staging_.takes(request)) [[unlikely]]
    return staging_.post(request, priority);
  post_from_host(request, priority);
}

void Transport::post_from_host(Request& request, int priority) {
  if (request.kind != Request::Kind::send) return hand_over(request);
  const auto same_order = [&](const Queued& q) {
    return q.request->peer == request.peer && q.request->slot == request.slot;
  };
  const bool waits_for_none = window_.messages == 0 || (request.size <= window_.small_bytes &&
                                                        std::none_of(queue_.begin(), queue_.end(), same_order));
  if (waits_for_none) return hand_over(request);
  const auto behind = std::upper_bound(queue_.begin(), queue_.end(), priority,
                                       [](int p, const Queued& other) { return p > other.priority; });
  queue_.insert(behind, {&request, priority});
  refill();
}

/// What cannot be started is complete, with the error.
void Transport::hand_over(Request& request) {
  if (request.kind == Request::Kind::send) {
    count_sent({.messages = 1, .bytes = request.size});
    if (const Request& told = request.carries ? *request.carries : request; told.hops) told.hops->handed_over(told);
  }
  try {
    start(request);
  } catch (...) {
    request.complete(0, std::current_exception());
  }
}

/// Hands over what now has a place. Comes after every call that may have completed sends, before their coroutines go
/// on.
void Transport::refill() {
  if (std::erase_if(placed_, [](const Request* r) { return r->done; }) > 0) moved_ = Clock::now();
  count_sending();
  while (!queue_.empty()) {
    const bool large = queue_.front().request->size > window_.small_bytes;  // small ones are here to keep their order
    if (large && static_cast<int>(placed_.size()) >= window_.messages) {
      if (seconds_since(moved_) < window_.stall_seconds) return;
      placed_.erase(placed_.begin());
    }
    Request& next = *queue_.front().request;
    queue_.pop_front();
    hand_over(next);
    if (!large) continue;
    moved_ = Clock::now();
    if (!next.done) placed_.push_back(&next);
    count_sending();
  }
}

void Transport::count_sending() {
  if (sending_since_.has_value() != placed_.empty()) return;
  if (!placed_.empty()) {
    sending_since_ = Clock::now();
  } else {
    sending_seconds_.store(sending_seconds_.load(std::memory_order_relaxed) + seconds_since(*sending_since_),
                           std::memory_order_relaxed);
    sending_since_.reset();
  }
}

void Transport::cancel(Request& request) {
  if (!staging_.cancel(request)) cancel_from_host(request);
}

void Transport::cancel_from_host(Request& request) {
  if (std::erase_if(queue_, [&](const Queued& q) { return q.request == &request; }) > 0) return;
  std::erase(placed_, &request);
  count_sending();
  cancel_started(request);
}

int Transport::progress() {
  const int count = poll();
  refill();
  return count + staging_.advance();
}

void Transport::wait(double at_most_seconds) {
  if (staging_.copying()) at_most_seconds = std::min(at_most_seconds, kDevicePollSeconds);
  if (!queue_.empty()) at_most_seconds = std::min(at_most_seconds, window_.stall_seconds);
  sleep(std::min(at_most_seconds, 1e8));
  refill();
}

TransportCommunicator::TransportCommunicator(Transport& transport, int slot, int priority, Device device,
                                             HopTrace* trace)
    : shared_(new Shared{transport, priority, device, trace, this}),
      rank_(transport.rank()),
      slot_(slot * kSlotsPerOperation) {}

Transfer TransportCommunicator::start(Request::Kind kind, int world_peer, int slot, Slice<std::byte> memory) {
  const Device device = memory.device();
  require<Error>(device.kind != Device::Kind::cuda || device == shared_->device, "communicator: memory on ", device,
                 " in an operation on ", shared_->device,
                 ", which does not wait for that device. Name it in Operation::device.");
  Request& request = shared_->pool.take(kind, world_peer, slot, memory, this);
  if (shared_->ended) {
    request.complete(0, shared_->ended);
    return Transfer(request);
  }
  if (shared_->trace && kind != Request::Kind::device) shared_->trace->posted(request);
  try {
    shared_->transport.post(request, shared_->priority);
  } catch (...) {  // its device is broken: it is in nobody's hands, and nobody else would complete it
    if (!request.done) request.complete(0, std::current_exception());
  }
  return Transfer(request);
}

Transfer TransportCommunicator::post(Request::Kind kind, int peer, Slice<std::byte> memory) {
  require<CommError>(peer >= 0 && peer < size(), "communicator: rank ", rank_, " of ", size(),
                     " was asked to talk to rank ", peer, ". Ranks are 0 to ", size() - 1, ".");
  return start(kind, group_.empty() ? peer : group_[static_cast<std::size_t>(peer)], slot_, memory);
}

std::unique_ptr<Communicator> TransportCommunicator::subgroup(std::span<const int> ranks) {
  std::vector<int> group;
  int own = -1;
  for (int r : ranks) {
    require<CommError>(r >= 0 && r < size(), "subgroup: there is no rank ", r, " among ", size(), ".");
    if (r == rank_) own = static_cast<int>(group.size());
    group.push_back(group_.empty() ? r : group_[static_cast<std::size_t>(r)]);
  }
  require<CommError>(own >= 0, "subgroup: rank ", rank_, " is not a member of the group it asked for.");
  return std::unique_ptr<Communicator>(new TransportCommunicator(shared_, std::move(group), own, slot_));
}

std::unique_ptr<Communicator> TransportCommunicator::channel(int index) {
  require<Error>(index >= 0 && index < kChannels, "communicator: there is no channel ", index, " among ", kChannels,
                 ".");
  require<Error>(slot_ % kSlotsPerOperation == 0, "communicator: a channel has no channels of its own.");
  return std::unique_ptr<Communicator>(new TransportCommunicator(shared_, group_, rank_, slot_ + 1 + index));
}

Transfer TransportCommunicator::device_comes(Device device) {
  if (shared_->transport.size() == 1) return Communicator::device_comes(device);  // nobody asks for progress
  return start(Request::Kind::device, rank_, slot_, {nullptr, 0, device});
}

void TransportCommunicator::end(std::exception_ptr error) {
  shared_->ended = error;
  for (Request* request : shared_->pool.live()) {
    if (request->done) continue;
    shared_->transport.cancel(*request);
    request->complete(0, error);
  }
}

void TransportCommunicator::cancel() {
  const std::vector<Request*> live(shared_->pool.live().begin(), shared_->pool.live().end());
  for (Request* request : live) {
    if (request->owner != this && shared_->first != this) continue;
    if (!request->done) shared_->transport.cancel(*request);
    shared_->pool.give_back(*request);
  }
}

std::string TransportCommunicator::waits_for() const {
  std::string first;
  int count = 0;
  for (const Request* r : shared_->pool.live()) {
    if (r->done || count++ > 0) continue;
    first = r->kind == Request::Kind::device ? concat("waits for ", r->device, " to come to it")
            : r->kind == Request::Kind::recv
                ? concat("waits for rank ", r->peer, " (up to ", r->size, " bytes to come)")
                : concat("sends ", r->size, " bytes that rank ", r->peer, " does not take");
  }
  if (count == 0) return "";
  return concat(first, count > 1 ? concat(" and ", count - 1, " more transfers") : "", "; ",
                shared_->pool.received_bytes(), " bytes came and ", shared_->pool.sent_bytes(), " went so far, in ",
                shared_->pool.received(), " and ", shared_->pool.sent(), " messages");
}

}  // namespace laconic::dist
