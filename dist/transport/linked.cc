#include "dist/transport/linked.h"

#include <sys/prctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/dispatch.h"

namespace laconic::dist {
namespace {

constexpr LinkDuration kLate = std::chrono::milliseconds(2);

}  // namespace

LinkUse LinkedHub::use() const {
  std::lock_guard lock(mutex);
  return use_;
}

std::vector<std::byte> LinkedHub::take_buffer() {
  std::vector<std::byte> buffer;
  if (buffers_.empty()) return buffer;
  buffer.swap(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

void LinkedHub::give_back(std::vector<std::byte>& buffer) {
  if (buffer.capacity() > 0 && buffers_.size() < 4 * ranks.size()) buffers_.push_back(std::move(buffer));
  buffer = {};
}

/// A flight that is due and whose bytes lie with the receiver.
void LinkedHub::deliver(Flights::iterator found) {
  LinkedRank::Flight& flight = found->second;
  if (flight.receive.request != nullptr)
    at(flight.receiver)
        .completions.emplace(std::max(*flight.due, flight.receive.stamp),
                             LinkedRank::Completion{flight.receive.request, flight.bytes, std::move(flight.error)});
  flights_.erase(found);
}

/// Nobody needs to be woken for what comes out: every rank sleeps no longer than until its own next event.
void LinkedHub::advance(LinkTime now) {
  model_.advance(now, events_);
  for (const SwitchModel::Event& event : events_) {
    const auto found = flights_.find(event.message);
    if (found == flights_.end()) continue;
    LinkedRank::Flight& flight = found->second;
    if (event.kind == SwitchModel::Event::Kind::sent) {
      if (Request* send = std::exchange(flight.send, nullptr))
        at(flight.sender).completions.emplace(event.at, LinkedRank::Completion{send, flight.bytes, nullptr});
    } else {
      flight.due = event.at;
      if (flight.receive.request != nullptr || flight.dropped) deliver(found);
    }
  }
  events_.clear();
}

LinkedTransport::LinkedTransport(std::shared_ptr<LinkedHub> hub, int rank) : ThreadTransport(std::move(hub), rank) {
  prctl(PR_SET_TIMERSLACK, 1);
  ask_for_short_slices();
  // Every send ends when the port has sent it, whatever its receiver does: places come back without a time limit.
  set_window({.messages = 2, .small_bytes = 4096, .stall_seconds = kForever});
}

LinkTime LinkedTransport::stamp() const {
  const LinkTime now = Clock::now();
  return due_ && now - *due_ - copying_ < kLate ? *due_ : now - copying_;
}

void LinkedTransport::copy(std::byte* to, Device to_device, const std::byte* from, Device from_device,
                           std::size_t bytes) {
  if (bytes == 0) return;
  const LinkTime begin = Clock::now();
  on_device(from_device, [&] { on_device(to_device, [&] { std::memcpy(to, from, bytes); }); });
  copying_ += Clock::now() - begin;
}

void LinkedTransport::start_send(Request& request) {
  const LinkTime stamp = this->stamp();
  LinkedRank::Flight flight{.sender = rank_, .receiver = request.peer, .bytes = request.size, .send = &request};
  auto& receiver = hub_->at(request.peer);
  std::unique_lock lock(hub_->mutex);
  LinkedRank::Channel& channel = channel_of(request);
  const std::byte* from = request.data;
  Device device = request.device;
  for (int attempt = 0; attempt < 2 && flight.receive.request == nullptr; ++attempt) {
    if (!channel.receives.empty()) {
      flight.receive = channel.receives.front();
      channel.receives.pop_front();
      const Request& to =
          *flight.receive.request;  // out of the queue: until it is in a flight, its cancel() waits for us
      lock.unlock();
      if (request.size > to.size)
        flight.error = too_long("emulated link", request.size, request.peer, to);
      else
        copy(to.data, to.device, from, device, request.size);
      lock.lock();
    } else if (attempt == 0) {
      flight.buffer = hub_->take_buffer();
      lock.unlock();
      if (flight.buffer.size() < request.size) flight.buffer.resize(request.size);
      copy(flight.buffer.data(), kCpu, from, device, request.size);
      from = flight.buffer.data(), device = kCpu;
      lock.lock();  // the receiver may have come meanwhile
    }
  }
  const bool matched = flight.receive.request != nullptr;
  if (matched) hub_->give_back(flight.buffer);
  const SwitchModel::Id id = hub_->model_.send(rank_, request.peer, request.size, stamp);
  if (!matched) channel.sends.push_back(id);
  hub_->flights_.emplace(id, std::move(flight));
  if (matched || hub_->model_.earliest_due(id) < receiver.sleeps_until) receiver.changed.notify_all();
}

void LinkedTransport::start_recv(Request& request) {
  const LinkedRank::Receive receive{&request, stamp()};
  std::unique_lock lock(hub_->mutex);
  LinkedRank::Channel& channel = channel_of(request);
  if (channel.sends.empty()) {
    channel.receives.push_back(receive);
    return;
  }
  const auto found = hub_->flights_.find(channel.sends.front());
  channel.sends.pop_front();
  LinkedRank::Flight& flight = found->second;  // stays: it has neither receive nor dropped
  lock.unlock();
  std::exception_ptr error;
  if (flight.bytes > request.size)
    error = too_long("emulated link", flight.bytes, rank_, request);
  else
    copy(request.data, request.device, flight.buffer.data(), kCpu, flight.bytes);
  lock.lock();
  hub_->give_back(flight.buffer);
  flight.error = std::move(error);
  flight.receive = receive;
  if (flight.due) hub_->deliver(found);
}

void LinkedTransport::cancel_started(Request& request) {
  const bool sending = request.kind == Request::Kind::send;
  std::unique_lock lock(hub_->mutex);
  const auto forget = [&] {
    if (std::erase_if(own().completions, [&](const auto& c) { return c.second.request == &request; }) > 0) return true;
    LinkedRank::Channel& channel = channel_of(request);
    if (!sending && std::erase_if(channel.receives, [&](const auto& r) { return r.request == &request; }) > 0)
      return true;
    for (auto& [id, flight] : hub_->flights_) {
      if (sending ? flight.send != &request : flight.receive.request != &request) continue;
      if (!sending) {
        flight.receive = {};
        flight.dropped = true;
      } else if (std::erase(channel.sends, id) > 0) {  // nobody waits for it
        hub_->model_.cancel(id);
        hub_->flights_.erase(id);
      } else {
        flight.send = nullptr;
      }
      return true;
    }
    return false;  // the sender's thread is copying into it
  };
  own().changed.wait(lock, forget);
}

int LinkedTransport::poll() {
  LinkedRank::Completion next;
  {
    std::lock_guard lock(hub_->mutex);
    require_world();
    const LinkTime now = Clock::now();
    hub_->advance(now);
    auto& completions = own().completions;
    due_.reset();
    if (completions.empty() || completions.begin()->first > now) return 0;
    due_ = completions.begin()->first;
    next = std::move(completions.begin()->second);
    completions.erase(completions.begin());
    if (next.request->kind == Request::Kind::recv) {
      ++hub_->use_.deliveries;
      if (now - *due_ > kLate) ++hub_->use_.late;
    }
  }
  // One at a time: what is posted in consequence is stamped with its time.
  next.request->complete(next.bytes, std::move(next.error));
  return 1;
}

void LinkedTransport::sleep(double at_most_seconds) {
  const LinkTime limit =
      Clock::now() + std::chrono::duration_cast<LinkDuration>(std::chrono::duration<double>(at_most_seconds));
  due_.reset();
  copying_ = LinkDuration(0);
  std::unique_lock lock(hub_->mutex);
  while (!own().woken && !hub_->aborted) {
    const LinkTime now = Clock::now();
    hub_->advance(now);
    LinkTime next = limit;
    if (!own().completions.empty()) next = std::min(next, own().completions.begin()->first);
    if (const auto event = hub_->model_.next_event(rank_)) next = std::min(next, *event);
    if (next <= now) break;
    own().sleeps_until = next;
    own().changed.wait_until(lock, next);
    own().sleeps_until = LinkTime::min();
  }
  own().woken = false;
}

}  // namespace laconic::dist
