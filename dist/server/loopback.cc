#include "dist/server/loopback.h"

#include <algorithm>

#include "core/stream.h"

namespace laconic::dist {

Loopback::Loopback(Communicator& network) : worker_(network, false), server_(network, true) {
  worker_.other_ = &server_;
  server_.other_ = &worker_;
}

void Loopback::End::require_own(int peer) const {
  require<CommError>(peer == network_.rank(), "loopback: the worker's half of rank ", network_.rank(),
                     " was asked to talk to rank ", peer, ".");
}

Transfer Loopback::End::send(int to, Slice<const std::byte> bytes) {
  if (uses_network_ && to != network_.rank()) return network_.send(to, bytes);
  require_own(to);
  // A request describes both directions; the memory of a send is only read.
  return post(Request::Kind::send, {const_cast<std::byte*>(bytes.data()), bytes.size(), bytes.device()});
}

Transfer Loopback::End::recv(int from, Slice<std::byte> bytes) {
  if (uses_network_ && from != network_.rank()) return network_.recv(from, bytes);
  require_own(from);
  return post(Request::Kind::recv, bytes);
}

Transfer Loopback::End::post(Request::Kind kind, Slice<std::byte> memory) {
  Request& request = pool_.take(kind, network_.rank(), 0, memory);
  if (ended_) {
    request.complete(0, ended_);
    return Transfer(request);
  }
  const bool sending = kind == Request::Kind::send;
  std::deque<Request*>& theirs = sending ? other_->receives_ : other_->sends_;
  if (theirs.empty()) {
    (sending ? sends_ : receives_).push_back(&request);
    return Transfer(request);
  }
  Request& match = *theirs.front();
  theirs.pop_front();
  Request &from = sending ? request : match, &to = sending ? match : request;
  if (from.size > to.size) {
    const auto error = std::make_exception_ptr(
        CommError(concat("loopback: ", from.size, " bytes for room of ", to.size, " on rank ", network_.rank(), ".")));
    from.complete(0, error);
    to.complete(0, error);
    return Transfer(request);
  }
  const std::size_t bytes = from.size;
  copy_bytes(to.data, to.device, from.data, from.device, bytes);
  from.complete(bytes);
  to.complete(bytes);
  return Transfer(request);
}

void Loopback::End::end(std::exception_ptr error) {
  ended_ = error;
  sends_.clear();
  receives_.clear();
  for (Request* request : pool_.live())
    if (!request->done) request->complete(0, error);
  if (uses_network_) network_.end(error);
}

void Loopback::End::cancel() {
  sends_.clear();
  receives_.clear();
  while (!pool_.live().empty()) pool_.give_back(*pool_.live().back());
  if (uses_network_) network_.cancel();
}

namespace {

Task<> half(Loopback& both, Communicator& mine, const std::function<Task<>(Communicator&)>& body,
            std::exception_ptr& error) {
  try {
    co_await body(mine);
  } catch (...) {
    if (error == nullptr) {
      error = std::current_exception();
      both.worker().end(error);
      both.server().end(error);
    }
  }
}

}  // namespace

Task<> run_both(Communicator& network, const std::function<Task<>(Communicator&)>& serve,
                const std::function<Task<>(Communicator&)>& work) {
  Scheduler& scheduler = co_await CurrentScheduler{};
  Loopback both(network);
  std::exception_ptr error;
  Task<> serving = half(both, both.server(), serve, error), working = half(both, both.worker(), work, error);
  serving.start(scheduler);
  working.start(scheduler);
  co_await serving.join();
  co_await working.join();
  if (error) std::rethrow_exception(error);
}

}  // namespace laconic::dist
