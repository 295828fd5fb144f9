#pragma once
#include <algorithm>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// One rank of N, whose others are a script: what they send is given beforehand, and comes at once. When that is used
/// up, they are lost.
class Script final : public Communicator {
 public:
  using Messages = std::deque<std::vector<std::byte>>;
  Script(int rank, int size) : Script(rank, size, std::make_shared<Messages>()) {}
  Messages& messages() { return *messages_; }  ///< in the order in which they are received

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Transfer post(Request::Kind kind, int peer, Slice<std::byte> room) override {
    Request& request = pool_.take(kind, peer, 0, room);
    if (kind == Request::Kind::send) {
      request.complete(room.size());
      return Transfer(request);
    }
    if (messages_->empty()) {
      request.complete(0, std::make_exception_ptr(CommError(concat("rank ", peer, " is lost"))));
      return Transfer(request);
    }
    const std::vector<std::byte> message = std::move(messages_->front());
    messages_->pop_front();
    if (message.size() > room.size()) {  // as transports do
      request.complete(0, std::make_exception_ptr(CommError("a message is longer than there is room")));
      return Transfer(request);
    }
    std::copy(message.begin(), message.end(), room.begin());
    request.complete(message.size());
    return Transfer(request);
  }
  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override {
    const auto own = std::find(ranks.begin(), ranks.end(), rank_);
    return std::unique_ptr<Communicator>(
        new Script(static_cast<int>(own - ranks.begin()), static_cast<int>(ranks.size()), messages_));
  }
  std::unique_ptr<Communicator> channel(int) override {
    return std::unique_ptr<Communicator>(new Script(rank_, size_, messages_));
  }
  void end(std::exception_ptr) override {}
  void count_buffer(std::ptrdiff_t) override {}
  void cancel() override {
    const std::vector<Request*> live(pool_.live().begin(), pool_.live().end());
    for (Request* r : live) pool_.give_back(*r);
  }

 private:
  Script(int rank, int size, std::shared_ptr<Messages> messages)
      : rank_(rank), size_(size), messages_(std::move(messages)) {}
  int rank_, size_;
  std::shared_ptr<Messages> messages_;
  RequestPool pool_;
};

/// Runs it to its end, and throws what it throws.
inline void run_alone(Task<> task) {
  Scheduler scheduler;
  task.start(scheduler);
  scheduler.run();
  require<Error>(task.done(), "a coroutine still waits, and nothing is under way");
  task.result();
}

}  // namespace laconic::dist
