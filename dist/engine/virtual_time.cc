#include "dist/engine/virtual_time.h"

#include <cstring>
#include <system_error>
#include <thread>

#include "dist/engine/virtual_rank.h"

namespace laconic::dist {

// ---- transport ----

int VirtualTransport::rank() const { return rank_.rank(); }

void VirtualTransport::start(Request& request) {
  if (request.kind == Request::Kind::recv) return world_.receive(rank_, request);
  rank_.handles_message(request.size);
  world_.send(rank_, request);
}

void VirtualTransport::cancel_started(Request& request) {
  if (!forget(request)) world_.cancel(rank_, request);
}

/// One at a time: what is posted in consequence has its time.
int VirtualTransport::poll() {
  if (completions_.empty() || completions_.begin()->first > rank_.thread_time()) return 0;
  Completion next = std::move(completions_.begin()->second);
  completions_.erase(completions_.begin());
  if (next.request->kind == Request::Kind::recv) rank_.handles_message(next.bytes);
  next.request->complete(next.bytes, std::move(next.error));
  return 1;
}

// ---- world ----

/// Blocks of a mirrored rank and of its neighbours are nearly equal: halves of halves differ by an element each.
constexpr std::size_t kUnevenBytes = 64;

VirtualWorld::VirtualWorld(const VirtualNetwork& network)
    : network_(network), model_(network.links.model(network.mirrored ? 2 : network.ranks)) {
  require<UsageError>(network.ranks >= 1, "virtual time: ", network.ranks, " ranks make no group. Ask for at least 1.");
  for (int r = 0; r < (network.mirrored ? 1 : network.ranks); ++r)
    ranks_.push_back(std::make_unique<VirtualRank>(*this, r));
}

void VirtualWorld::send(VirtualRank& from, Request& request) {
  const bool ghost = request.device == kGhost;
  Flight flight{.from = &from, .send = &request, .bytes = request.size};
  if (!ghost) flight.contents.assign(request.data, request.data + request.size);
  const int to = network_.mirrored ? 1 : request.peer;
  const SwitchModel::Id id = model_.send(from.rank(), to, request.size, from.thread_time());
  const auto found = flights_.emplace(id, std::move(flight)).first;
  Channel& c = channel(from.rank(), request.peer, request.slot);
  if (c.receives.empty()) return c.sends.push_back(id);
  const Receive first = c.receives.front();
  c.receives.pop_front();
  match(found, first);
}

void VirtualWorld::receive(VirtualRank& to, Request& request) {
  Channel& c = channel(request.peer, to.rank(), request.slot);
  const Receive receive{&to, &request, to.thread_time()};
  if (c.sends.empty()) return c.receives.push_back(receive);
  const auto found = flights_.find(c.sends.front());
  c.sends.pop_front();
  match(found, receive);
}

void VirtualWorld::match(Flights::iterator found, const Receive& receive) {
  Flight& flight = found->second;
  flight.to = receive;
  const std::size_t room = receive.request->size;
  if (!flight.contents.empty() && flight.bytes <= room)
    std::memcpy(receive.request->data, flight.contents.data(), flight.bytes);
  flight.contents = {};
  if (flight.due) deliver(found);
}

/// Hands a flight that is due to its receiver.
void VirtualWorld::deliver(Flights::iterator found) {
  const Flight flight = std::move(found->second);
  flights_.erase(found);
  if (flight.dropped) return;
  Request& to = *flight.to.request;
  const std::size_t longer = std::max(flight.bytes, to.size), shorter = std::min(flight.bytes, to.size);
  const bool as_long = network_.mirrored && to.device == kGhost && longer - shorter <= kUnevenBytes;
  const std::size_t bytes = as_long ? to.size : flight.bytes;
  std::exception_ptr error;
  if (bytes > to.size)
    error = std::make_exception_ptr(CommError(concat("virtual time: rank ", to.peer, " sent ", bytes, " bytes to rank ",
                                                     flight.to.by->rank(), ", which has room for ", to.size, ".")));
  flight.to.by->transport().complete_later(std::max(*flight.due, flight.to.asked), to, bytes, std::move(error));
}

void VirtualWorld::cancel(VirtualRank& rank, Request& request) {
  const bool sending = request.kind == Request::Kind::send;
  Channel& c =
      sending ? channel(rank.rank(), request.peer, request.slot) : channel(request.peer, rank.rank(), request.slot);
  if (!sending && std::erase_if(c.receives, [&](const Receive& r) { return r.request == &request; }) > 0) return;
  for (auto& [id, flight] : flights_) {
    if ((sending ? flight.send : flight.to.request) != &request) continue;
    if (!sending) {
      flight.dropped = true;
    } else if (std::erase(c.sends, id) > 0) {  // nobody waits for it
      model_.cancel(id);
      flights_.erase(id);
    } else {
      flight.send = nullptr;
    }
    return;
  }
}

/// Returns the communication thread that has its turn first, and when; null if none has anything to do.
std::pair<LinkTime, VirtualRank*> VirtualWorld::next_turn() const {
  std::pair<LinkTime, VirtualRank*> first{LinkTime::max(), nullptr};
  for (const auto& rank : ranks_)
    if (const auto turn = rank->next_turn(); turn && *turn < first.first) first = {*turn, rank.get()};
  return first;
}

/// Does what comes first: the network decides something, or a communication thread has its turn. False: there is
/// nothing to do.
bool VirtualWorld::step() {
  const auto [at, first] = next_turn();
  const auto decision = model_.next_decision();
  if (!decision && first == nullptr) return false;
  if (!decision || *decision > at) {
    first->turn(at);
    return true;
  }
  model_.advance(*decision, events_);
  for (const SwitchModel::Event& event : events_) {
    const auto found = flights_.find(event.message);
    if (found == flights_.end()) continue;
    Flight& flight = found->second;
    if (event.kind == SwitchModel::Event::Kind::sent) {
      if (Request* send = std::exchange(flight.send, nullptr))
        flight.from->transport().complete_later(event.at, *send, flight.bytes, nullptr);
    } else {
      flight.due = event.at;
      if (flight.to.request != nullptr) deliver(found);
    }
  }
  events_.clear();
  return true;
}

/// Returns the rank that goes on: the first in virtual time that waits for nothing. After a failure all go on.
VirtualRank* VirtualWorld::next_rank() const {
  VirtualRank* next = nullptr;
  for (const auto& rank : ranks_)
    if (!rank->ended && (failure_ || !rank->waits()) && (!next || rank->computed_to() < next->computed_to()))
      next = rank.get();
  return next;
}

/// `from` waits, or has ended: finds the one that runs now, and lets it. Whether that is another.
bool VirtualWorld::pass_on(VirtualRank* from) {
  VirtualRank* next = nullptr;
  while ((next = next_rank()) == nullptr) {
    if (std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank->ended; })) return false;
    if (!step()) fail(std::make_exception_ptr(CommError(standstill())));
  }
  if (next == from) return false;
  next->may_run.release();
  return true;
}

void VirtualWorld::wait(VirtualRank& rank) {
  if (pass_on(&rank)) rank.may_run.acquire();
}

std::string VirtualWorld::standstill() const {
  std::string text = "virtual time: all ranks wait for each other:";
  for (const auto& rank : ranks_)
    if (!rank->ended) text += concat(" rank ", rank->rank(), " in ", rank->waits_for(), ";");
  text.back() = '.';
  return text;
}

void VirtualWorld::run(const std::function<void(VirtualEngine&)>& body) {
  if (ranks_.size() == 1) return ranks_[0]->run_body(body);
  std::vector<std::thread> threads;
  try {
    for (const auto& each : ranks_)
      threads.emplace_back([&, rank = each.get()] {
        rank->may_run.acquire();
        try {
          require_going_on();
          rank->run_body(body);
        } catch (...) {
          fail(std::current_exception());
        }
        rank->ended = true;
        pass_on(rank);
      });
  } catch (const std::system_error& e) {
    fail(std::make_exception_ptr(
        Error(concat("virtual time: there is no room for the threads of ", ranks_.size(), " ranks: ", e.what()))));
    for (std::size_t r = threads.size(); r < ranks_.size(); ++r) ranks_[r]->ended = true;
  }
  if (!threads.empty()) ranks_[0]->may_run.release();
  for (std::thread& thread : threads) thread.join();
  require_going_on();
}

void run_in_virtual_time(const VirtualNetwork& network, const std::function<void(VirtualEngine&)>& body) {
  VirtualWorld(network).run(body);
}

}  // namespace laconic::dist
