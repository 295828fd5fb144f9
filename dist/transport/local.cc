#include "dist/transport/local.h"

#include <algorithm>

namespace laconic::dist {

LocalHub::LocalHub(int size) : notes_(size) {
  require<UsageError>(size >= 1, "local transport: ", size, " workers make no group. Ask for at least 1.");
  for (int r = 0; r < size; ++r) ranks_.push_back(std::make_unique<Rank>());
}

LocalTransport::LocalTransport(std::shared_ptr<LocalHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

void LocalTransport::start(Request& request) {
  const bool sending = request.kind == Request::Kind::send;
  const int receiver = sending ? request.peer : rank_, sender = sending ? rank_ : request.peer;
  LocalHub::Rank& peer = *hub_->ranks_[static_cast<std::size_t>(request.peer)];
  LocalHub::Posted other;
  {
    Event ready = Event::now(request.device);
    std::lock_guard lock(hub_->mutex_);
    auto& channel = hub_->ranks_[static_cast<std::size_t>(receiver)]->incoming[channel_key(sender, request.slot)];
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
  const bool too_long = bytes > to.size;  // the receiver's error; others are both sides'
  if (too_long)
    error = std::make_exception_ptr(CommError(
        concat("local transport: rank ", sender, " sent ", bytes, " bytes to rank ", receiver, ", which has room for ",
               to.size, " (slot ", request.slot, "). Do all ranks run the same model and options?")));
  else if (bytes > 0)
    try {
      other.ready.wait();
      copy_bytes(to.data, to.device, from.data, from.device, bytes);
      copied = Event::now(other.request->device);
    } catch (...) {  // the device is broken; the other must not wait for ever
      error = std::current_exception();
    }
  {
    std::lock_guard lock(hub_->mutex_);
    peer.completed.push_back({other.request, bytes, sending || !too_long ? error : nullptr, std::move(copied)});
    peer.changed.notify_all();
  }
  request.complete(bytes, sending && too_long ? nullptr : error);
}

void LocalTransport::cancel_started(Request& request) {
  const bool sending = request.kind == Request::Kind::send;
  const int receiver = sending ? request.peer : rank_, sender = sending ? rank_ : request.peer;
  LocalHub::Rank& own = *hub_->ranks_[static_cast<std::size_t>(rank_)];
  std::unique_lock lock(hub_->mutex_);
  auto& channel = hub_->ranks_[static_cast<std::size_t>(receiver)]->incoming[channel_key(sender, request.slot)];
  if (std::erase_if(sending ? channel.sends : channel.receives,
                    [&](const LocalHub::Posted& posted) { return posted.request == &request; }) > 0)
    return;
  const auto mine = [&](const LocalHub::Completion& c) { return c.request == &request; };
  own.changed.wait(lock, [&] { return std::any_of(own.completed.begin(), own.completed.end(), mine); });
  const auto found = std::find_if(own.completed.begin(), own.completed.end(), mine);
  try {
    found->copied.wait();
  } catch (const Error&) {
    // The device is broken: it copies nothing any more.
  }
  own.completed.erase(found);
}

int LocalTransport::poll() {
  LocalHub::Rank& own = *hub_->ranks_[static_cast<std::size_t>(rank_)];
  {
    std::lock_guard lock(hub_->mutex_);
    if (hub_->aborted_) throw CommError(hub_->reason_);
    taken_.swap(own.completed);
  }
  for (LocalHub::Completion& c : taken_) {
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
  LocalHub::Rank& own = *hub_->ranks_[static_cast<std::size_t>(rank_)];
  std::unique_lock lock(hub_->mutex_);
  const auto something = [&] { return own.woken || hub_->aborted_ || !own.completed.empty(); };
  if (at_most_seconds == kForever)
    own.changed.wait(lock, something);
  else
    own.changed.wait_for(lock, std::chrono::duration<double>(at_most_seconds), something);
  own.woken = false;
}

void LocalTransport::wake() {
  LocalHub::Rank& own = *hub_->ranks_[static_cast<std::size_t>(rank_)];
  std::lock_guard lock(hub_->mutex_);
  own.woken = true;
  own.changed.notify_all();
}

void LocalTransport::abort(const std::string& reason, int) {
  std::lock_guard lock(hub_->mutex_);
  if (hub_->aborted_) return;
  hub_->aborted_ = true;
  hub_->reason_ = reason;
  for (auto& rank : hub_->ranks_) rank->changed.notify_all();
}

}  // namespace laconic::dist
