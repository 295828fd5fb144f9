#include "dist/server/loopback.h"

#include <deque>
#include <exception>

#include "core/stream.h"

namespace laconic::dist {
namespace {

/// One half's communicator. The worker's talks to its own rank alone, the server's to all ranks.
class End final : public Communicator {
 public:
  End(Communicator& network, bool uses_it) : network_(network), uses_network_(uses_it) {}
  ~End() override { cancel(); }
  void meet(End& other) { other_ = &other; }

  int rank() const override { return network_.rank(); }
  int size() const override { return network_.size(); }
  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override { return network_.subgroup(ranks); }
  std::unique_ptr<Communicator> channel(int index) override { return network_.channel(index); }
  void count_buffer(std::ptrdiff_t bytes) override { network_.count_buffer(bytes); }
  void end(std::exception_ptr error) override {
    ended_ = error;
    sends_.clear();
    receives_.clear();
    for (Request* request : pool_.live())
      if (!request->done) request->complete(0, error);
    if (uses_network_) network_.end(error);
  }
  void cancel() override {
    sends_.clear();
    receives_.clear();
    while (!pool_.live().empty()) pool_.give_back(*pool_.live().back());
    if (uses_network_) network_.cancel();
  }

 private:
  Transfer post(Request::Kind kind, int peer, Slice<std::byte> memory) override;

  Communicator& network_;
  const bool uses_network_;
  End* other_ = nullptr;
  RequestPool pool_;
  std::deque<Request*> sends_, receives_;  // posted here and not met yet
  std::exception_ptr ended_;
};

Transfer End::post(Request::Kind kind, int peer, Slice<std::byte> memory) {
  const bool sending = kind == Request::Kind::send;
  if (uses_network_ && peer != network_.rank())
    return sending ? network_.send(peer, memory) : network_.recv(peer, memory);
  require<CommError>(peer == network_.rank(), "loopback: the worker's half of rank ", network_.rank(),
                     " was asked to talk to rank ", peer, ".");
  Request& request = pool_.take(kind, network_.rank(), 0, memory);
  if (ended_) {
    request.complete(0, ended_);
    return Transfer(request);
  }
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

Task<> half(End& mine, End& other, const std::function<Task<>(Communicator&)>& body, std::exception_ptr& error) {
  try {
    co_await body(mine);
  } catch (...) {
    if (error == nullptr) {
      error = std::current_exception();
      mine.end(error);
      other.end(error);
    }
  }
}

}  // namespace

Task<> run_both(Communicator& network, const std::function<Task<>(Communicator&)>& serve,
                const std::function<Task<>(Communicator&)>& work) {
  Scheduler& scheduler = co_await CurrentScheduler{};
  End server(network, true), worker(network, false);
  server.meet(worker);
  worker.meet(server);
  std::exception_ptr error;
  Task<> serving = half(server, worker, serve, error), working = half(worker, server, work, error);
  serving.start(scheduler);
  working.start(scheduler);
  co_await serving;
  co_await working;
  if (error) std::rethrow_exception(error);
}

}  // namespace laconic::dist
