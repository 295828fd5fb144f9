#pragma once
#include <deque>
#include <exception>
#include <functional>

#include "dist/communicator.h"

namespace laconic::dist {

/// The two halves of one operation on a rank that is a worker and serves its own bucket talk to each other here, by
/// the same calls as over a network, which never sees these messages: so neither half knows that they live together.
///
///     worker's half  <--- queue, memory copied --->  server's half  <--- the operation's network --->  other ranks
///
/// Both halves run on the communication thread. A message waits until the other half has asked for it.
class Loopback {
 public:
  /// `network` is the operation's.
  explicit Loopback(Communicator& network);
  Communicator& worker() { return worker_; }  ///< talks to its own rank alone
  Communicator& server() { return server_; }  ///< talks to all ranks

 private:
  class End final : public Communicator {
   public:
    End(Communicator& network, bool uses_it) : network_(network), uses_network_(uses_it) {}
    ~End() override { cancel(); }
    int rank() const override { return network_.rank(); }
    int size() const override { return network_.size(); }
    Transfer send(int to, Slice<const std::byte> bytes) override;
    Transfer recv(int from, Slice<std::byte> bytes) override;
    std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override { return network_.subgroup(ranks); }
    std::unique_ptr<Communicator> channel(int index) override { return network_.channel(index); }
    void end(std::exception_ptr error) override;
    void count_buffer(std::ptrdiff_t bytes) override { network_.count_buffer(bytes); }
    void cancel() override;

   private:
    friend class Loopback;
    Transfer post(Request::Kind kind, Slice<std::byte> memory);
    void require_own(int peer) const;

    Communicator& network_;
    const bool uses_network_;
    End* other_ = nullptr;
    RequestPool pool_;
    std::deque<Request*> sends_, receives_;  // posted here and not met yet
    std::exception_ptr ended_;
  };
  End worker_, server_;
};

/// Runs both halves until both have ended; if one throws the other is ended too, and its error is thrown.
/// `serve` and `work` : given the communicator of their half
Task<> run_both(Communicator& network, const std::function<Task<>(Communicator&)>& serve,
                const std::function<Task<>(Communicator&)>& work);

}  // namespace laconic::dist
