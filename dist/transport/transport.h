#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "dist/communicator.h"
#include "dist/transport/native.h"

namespace laconic::dist {

/// What was handed to the network so far: payload and headers of our own.
struct Traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// Moves bytes between this rank and others. Messages match by (sender, slot) and keep their order within both; the
/// slot comes from the plan, so no header travels. Only the communication thread calls it, except where noted.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Start what `request` describes (kind, peer, slot, memory). It may be complete on return; else progress() completes
  /// it. `priority`: larger goes first, where there is a choice.
  virtual void post(Request& request, int priority) = 0;
  /// Afterwards the request's memory is not touched any more.
  virtual void cancel(Request& request) = 0;
  /// Completes what can be completed; how many. Throws CommError if the world has ended (abort).
  virtual int progress() = 0;
  /// Sleeps until progress() may find something or somebody calls wake().
  virtual void wait() = 0;
  /// Ends the next wait() at once. From any thread.
  virtual void wake() = 0;
  /// One rank's error ends all ranks with this sentence. From any thread; may end the process with `exit_code`.
  virtual void abort(const std::string& reason, int exit_code) = 0;

  /// From any thread.
  Traffic traffic() const {
    return {messages_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)};
  }

 protected:
  void count_sent(std::size_t bytes) {
    messages_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }

 private:
  std::atomic<std::uint64_t> messages_{0}, bytes_{0};
};

/// One operation's view of a transport: all of its ranks, or some (subgroup).
class TransportCommunicator final : public Communicator {
 public:
  TransportCommunicator(Transport& transport, int slot, int priority);
  ~TransportCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return group_.empty() ? transport_.size() : static_cast<int>(group_.size()); }
  Transfer send(int to, Slice<const std::byte> bytes) override;
  Transfer recv(int from, Slice<std::byte> bytes) override;
  Transfer work(double) override { return {}; }  // real time passes by itself
  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override;
  void cancel() override;

  /// The transport's own collectives; see dist/collective/native_allreduce.h. Throws UsageError if it has none, or if
  /// this is a subgroup.
  NativeCollectives& native() const;
  Transfer native_allreduce(Slice<float> x);

  /// "waits for rank 3 (4,096 bytes to come), 8,192 bytes came so far"; "" if no transfer is under way.
  std::string waits_for() const;

 private:
  TransportCommunicator(TransportCommunicator& parent, std::vector<int> group, int rank);
  Transfer post(Request::Kind kind, int peer, Slice<std::byte> memory);

  Transport& transport_;
  TransportCommunicator* parent_ = nullptr;
  std::vector<TransportCommunicator*> children_;  // subgroups alive: cancel() reaches them too
  std::vector<int> group_;                        // world ranks; empty: all
  int rank_, slot_, priority_;
  RequestPool pool_;
};

}  // namespace laconic::dist
