#include "dist/transport/staging.h"

#include <algorithm>
#include <utility>

#include "dist/transport/transport.h"

namespace laconic::dist {

Staging::~Staging() {
  try {
    for (const auto& message : copying_) message->copied.synchronize();
    for (const Retired& retired : retired_) retired.copied.synchronize();
  } catch (const Error&) {
    // The device is broken: it copies nothing any more.
  }
}

bool Staging::takes(const Request& request) const {
  if (request.kind == Request::Kind::device) return true;
  if (!transport_.reaches(request.device)) return true;
  return request.kind == Request::Kind::send && std::any_of(copying_.begin(), copying_.end(), [&](const auto& m) {
           return m->request->peer == request.peer && m->request->slot == request.slot;
         });
}

void Staging::post(Request& request, int priority) {
  auto message = std::make_unique<Message>(Message{.request = &request, .priority = priority});
  if (request.kind == Request::Kind::device) {
    message->copied = Event::now(request.device);
    return copying_.push_back(std::move(message));
  }
  Request& carried = message->carried;
  carried = {.kind = request.kind,
             .peer = request.peer,
             .slot = request.slot,
             .data = request.data,
             .size = request.size,
             .carries = &request};
  if (!transport_.reaches(request.device)) {
    message->memory = Pinned(request.size, request.device);
    carried.data = message->memory.data();
  }
  const bool staged = carried.data != request.data;
  if (request.kind == Request::Kind::recv) {
    transport_.post_from_host(carried, priority);
    posted_.push_back(std::move(message));
  } else {
    if (staged) {
      copy_bytes_later(carried.data, kCpu, request.data, request.device, request.size);
      message->copied = Event::now(request.device);
    }
    copying_.push_back(std::move(message));
  }
  if (staged) transport_.count_buffer(static_cast<std::ptrdiff_t>(request.size));
}

void Staging::retire(Message& message, Event copied) {
  if (message.memory.data() == nullptr) return;
  transport_.count_buffer(-static_cast<std::ptrdiff_t>(message.memory.size()));
  retired_.push_back({std::move(message.memory), std::move(copied)});
}

bool Staging::cancel(Request& request) {
  const auto is_it = [&](const auto& m) { return m->request == &request; };
  if (const auto it = std::find_if(copying_.begin(), copying_.end(), is_it); it != copying_.end()) {
    retire(**it, (*it)->copied);
    copying_.erase(it);
    return true;
  }
  const auto it = std::find_if(posted_.begin(), posted_.end(), is_it);
  if (it == posted_.end()) return false;
  Message& message = **it;
  if (!message.carried.done) transport_.cancel_from_host(message.carried);
  if (message.memory.data() != nullptr && request.kind != Request::Kind::recv) {
    transport_.count_buffer(-static_cast<std::ptrdiff_t>(message.memory.size()));
    abandoned_.push_back(std::move(message.memory));
  } else {
    retire(message, {});
  }
  posted_.erase(it);
  return true;
}

int Staging::advance() {
  int count = 0;
  for (; !copying_.empty() && copying_.front()->copied.reached(); ++count) {
    std::unique_ptr<Message> next = std::move(copying_.front());
    copying_.pop_front();
    if (Request& request = *next->request; request.kind == Request::Kind::device) {
      std::exception_ptr found;
      try {
        throw_findings(request.device);
      } catch (const Error&) {
        found = std::current_exception();
      }
      request.complete(0, std::move(found));
      continue;
    }
    posted_.push_back(std::move(next));
    transport_.post_from_host(posted_.back()->carried, posted_.back()->priority);
  }
  for (std::size_t i = 0; i < posted_.size();) {
    if (!posted_[i]->carried.done) {
      ++i;
      continue;
    }
    const std::unique_ptr<Message> message = std::move(posted_[i]);
    posted_.erase(posted_.begin() + static_cast<std::ptrdiff_t>(i));
    Request &request = *message->request, &carried = message->carried;
    Event copied;
    if (request.kind != Request::Kind::send && !carried.error && carried.moved > 0) try {
        copy_bytes_later(request.data, request.device, carried.data, kCpu, carried.moved);
        copied = Event::now(request.device);
      } catch (const Error&) {
        carried.error = std::current_exception();  // nobody else knows of the request any more
      }
    retire(*message, copied);
    request.complete(carried.moved, std::move(carried.error));
    ++count;
  }
  while (!retired_.empty() && retired_.front().copied.reached()) retired_.pop_front();
  return count;
}

}  // namespace laconic::dist
