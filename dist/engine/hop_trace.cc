#include "dist/engine/hop_trace.h"

#include <algorithm>

#include "core/base/error.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

void Request::tell_trace() const { hops->completed(*this); }

void HopTrace::posted(Request& request) {
  request.hops = this;
  request.number = ++count_[{static_cast<int>(request.kind), request.peer, request.slot}];
  if (request.kind == Request::Kind::recv) record(FlightEvent::Kind::expects, request, request.size);
}

void HopTrace::record(FlightEvent::Kind kind, const Request& request, std::size_t bytes) {
  if (flight_ == nullptr) return;
  FlightEvent event;
  event.kind = kind, event.bytes = bytes, event.peer = request.peer;
  event.number = request.number, event.slot = request.slot, event.run = run_;
  flight_->communication(event, name_);
}

std::uint64_t HopTrace::arrow(const Request& request) const {
  const bool sent = request.kind == Request::Kind::send;
  const int from = sent ? rank_ : request.peer, to = sent ? request.peer : rank_;
  return Trace::arrow_id({0x6d657373u, static_cast<std::uint64_t>(request.slot), run_, static_cast<std::uint64_t>(from),
                          static_cast<std::uint64_t>(to), request.number});
}

void HopTrace::handed_over(const Request& request) {
  record(FlightEvent::Kind::sends, request, request.size);
  if (!traced_) return;
  event_.arrows.push_back({arrow(request), Trace::Clock::now(), Trace::Arrow::Kind::leaves});
  event_.bytes += static_cast<std::int64_t>(request.size);
}

void HopTrace::completed(const Request& request) {
  if (request.kind == Request::Kind::send || request.error) return;
  record(FlightEvent::Kind::came, request, request.moved);
  if (!traced_) return;
  const auto now = Trace::Clock::now();
  Trace::Event hop{.name = concat("from rank ", request.peer), .category = "hop", .begin = now, .end = now};
  hop.bytes = static_cast<std::int64_t>(request.moved);
  hop.arrows.push_back({arrow(request), now, Trace::Arrow::Kind::arrives});
  event_.parts.push_back(std::move(hop));
}

Trace::Event HopTrace::event(std::string name, Trace::Clock::time_point begin, std::uint64_t arrow) {
  event_.name = std::move(name);
  event_.begin = begin;
  event_.end = Trace::Clock::now();
  if (arrow) event_.arrows.push_back({arrow, begin});
  for (Trace::Event& hop : event_.parts) {
    hop.begin = begin;
    begin = hop.end;
  }
  return std::move(event_);
}

}  // namespace laconic::dist
