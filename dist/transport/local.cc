#include "dist/transport/local.h"

#include <algorithm>

namespace laconic::dist {

void LocalTransport::start(Request& request) {
  const bool sending = request.kind == Request::Kind::send;
  LocalRank::Posted other;
  {
    Event ready = Event::now(request.device);
    std::lock_guard lock(hub_->mutex);
    LocalRank::Channel& channel = channel_of(request);
    auto& theirs = sending ? channel.receives : channel.sends;
    if (theirs.empty()) {
      (sending ? channel.sends : channel.receives).push_back({&request, std::move(ready)});
      return;
    }
    other = std::move(theirs.front());
    theirs.pop_front();
  }
  // Both requests are out of the queues: until the completion is entered below, cancel() waits for it.
  Request& from = sending ? request : *other.request;
  Request& to = sending ? *other.request : request;
  const std::size_t bytes = from.size;
  std::exception_ptr error;
  Event copied;
  const bool refused = bytes > to.size;  // the receiver's error; others are both sides'
  if (refused)
    error = too_long("local transport", bytes, from.peer, to);
  else if (bytes > 0)
    try {
      other.ready.wait();
      copy_bytes(to.data, to.device, from.data, from.device, bytes);
      copied = Event::now(other.request->device);
    } catch (...) {  // the device is broken; the other must not wait for ever
      error = std::current_exception();
    }
  auto& peer = hub_->at(request.peer);
  {
    std::lock_guard lock(hub_->mutex);
    peer.completed.push_back({other.request, bytes, sending || !refused ? error : nullptr, std::move(copied)});
  }
  peer.changed.notify_all();  // the lock is free: the thread that wakes takes it first
  request.complete(bytes, sending && refused ? nullptr : error);
}

void LocalTransport::cancel_started(Request& request) {
  std::unique_lock lock(hub_->mutex);
  LocalRank::Channel& channel = channel_of(request);
  const auto is_it = [&](const auto& entry) { return entry.request == &request; };
  if (std::erase_if(request.kind == Request::Kind::send ? channel.sends : channel.receives, is_it) > 0) return;
  auto& completed = own().completed;
  auto found = completed.end();
  own().changed.wait(lock, [&] {
    found = std::find_if(completed.begin(), completed.end(), is_it);
    return found != completed.end();
  });
  try {
    found->copied.wait();
  } catch (const Error&) {
    // The device is broken: it copies nothing any more.
  }
  completed.erase(found);
}

int LocalTransport::poll() {
  {
    std::lock_guard lock(hub_->mutex);
    require_world();
    taken_.swap(own().completed);
  }
  for (LocalRank::Completion& c : taken_) {
    try {
      c.copied.wait();
    } catch (...) {  // the others of `taken_` must still be told
      if (!c.error) c.error = std::current_exception();
    }
    c.request->complete(c.bytes, std::move(c.error));
  }
  const int count = static_cast<int>(taken_.size());
  taken_.clear();
  return count;
}

void LocalTransport::sleep(double at_most_seconds) {
  std::unique_lock lock(hub_->mutex);
  own().changed.wait_for(lock, std::chrono::duration<double>(at_most_seconds),
                         [&] { return own().woken || hub_->aborted || !own().completed.empty(); });
  own().woken = false;
}

}  // namespace laconic::dist
