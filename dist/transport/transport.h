#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "dist/communicator.h"

namespace laconic::dist {

/// What was handed to the network so far: payload and headers of our own.
struct Traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// Which sends the network gets, and when. What it has got cannot be overtaken any more, so large messages wait here,
/// the most urgent first, until a place is free. A message of up to small_bytes never waits: it is sent at once.
struct SendWindow {
  int messages = 0;                    ///< places for large messages; 0: everything is handed over at once
  std::size_t small_bytes = 64 << 10;  ///< up to so many need no place
  double stall_seconds = 1;            ///< when no send ends for so long, the oldest gives its place away
};

/// Moves bytes between this rank and others. Messages match by (sender, slot) and keep their order within both; the
/// slot comes from the plan, so no header travels. Only the communication thread calls it, except where noted.
///
/// Why the window cannot deadlock, although ranks may submit operations in different orders: receives never wait. A
/// send that holds a place may end only when its receiver has submitted the same operation, and the receiver may be
/// waiting for a message that is still in our queue. But when nothing ended for stall_seconds the oldest send gives its
/// place away (it stays under way), so every send is handed over in the end, as without a window. Ranks that submit in
/// one order, as training does, never come to that.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Before the first send. A transport sets what suits its network; tests and benches try others.
  void set_window(SendWindow window) { window_ = window; }

  /// Does what `request` describes (kind, peer, slot, memory). It may be complete on return; else progress() completes
  /// it. `priority`: larger goes first, equal ones in the order of posting. Messages of one slot between two ranks keep
  /// their order if their priorities are equal.
  void post(Request& request, int priority);
  /// Afterwards the request's memory is not touched any more.
  void cancel(Request& request);
  /// Completes what can be completed; how many. Throws CommError if the world has ended (abort).
  int progress();
  /// Sleeps until progress() may find something, somebody calls wake(), or the time is over.
  void wait(double at_most_seconds = kForever);
  /// Ends the next wait() at once. From any thread.
  virtual void wake() = 0;
  /// One rank's error ends all ranks with this sentence. From any thread; may end the process with `exit_code`.
  virtual void abort(const std::string& reason, int exit_code) = 0;

  static constexpr double kForever = std::numeric_limits<double>::infinity();

  /// Handed to the network so far. From any thread.
  Traffic traffic() const {
    return {messages_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)};
  }

 protected:
  /// Hand a message to the network; offer memory to it. May complete the request at once. Requests of one (peer, slot)
  /// come in the order in which they match.
  virtual void start_send(Request& request) = 0;
  virtual void start_recv(Request& request) = 0;
  virtual void cancel_started(Request& request) = 0;
  virtual int poll() = 0;                          ///< progress()
  virtual void sleep(double at_most_seconds) = 0;  ///< wait(); kForever: no limit

 private:
  using Clock = std::chrono::steady_clock;
  struct Queued {
    Request* request;
    int priority;
  };
  void hand_over(Request& request);
  void refill();

  SendWindow window_;
  std::deque<Queued> queue_;      // sends that wait for a place, the next one first
  std::vector<Request*> placed_;  // large sends that hold a place, the oldest first
  Clock::time_point moved_{};     // when a place was last taken or given back
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

  /// From now on what is sent and received is told there; null: nowhere. Before any subgroup is made.
  void set_trace(HopTrace* trace) { trace_ = trace; }

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
  HopTrace* trace_ = nullptr;
  RequestPool pool_;
};

}  // namespace laconic::dist
