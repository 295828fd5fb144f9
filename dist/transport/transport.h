#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "dist/engine/communicator.h"
#include "dist/transport/staging.h"

namespace laconic::dist {

/// What was handed to the network so far: payload and headers of our own.
struct Traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

struct Note {
  int from = 0;
  std::string text{};
};

/// Which sends the network gets, and when. What it has got cannot be overtaken any more, so large messages wait here,
/// the most urgent first, until a place is free. A message of up to small_bytes never waits: it is sent at once.
struct SendWindow {
  int messages = 0;                    ///< places for large messages; 0: everything is handed over at once
  std::size_t small_bytes = 64 << 10;  ///< messages of up to this size need no place
  double stall_seconds = 1;            ///< when no send ends for so long, the oldest gives its place away
};

/// From now on the calling thread, when it wakes, displaces one that computes at once, and soon makes room again: its
/// time slices are 0.1 ms (Linux 6.12; older ones take no notice). For threads that sleep while they wait: on busy
/// cores each message of a collective would else be late by what is left of another thread's slice, some ms. Needs no
/// privilege.
void ask_for_short_slices();

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
  /// Whether it moves messages straight from and to memory there, in the order of the device's work. Else they pass
  /// through host memory (Staging).
  virtual bool reaches(Device device) const { return device.kind != Device::Kind::cuda; }
  /// Whether another thread may do the communication thread's work for a while; never two at once.
  virtual bool any_thread() const { return true; }

  /// Before the first send. A transport sets what suits its network; tests and benches try others.
  void set_window(SendWindow window) { window_ = window; }

  /// Does what `request` describes (kind, peer, slot, memory). It may be complete on return; else progress() completes
  /// it. `priority`: larger goes first, equal ones in the order of posting. Messages of one slot between two ranks keep
  /// their order if their priorities are equal. Memory of a device takes part in the order of the calling thread's work
  /// there: what was asked before is sent, and what is asked after the completion sees what came.
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

  /// Notes: a few lines to another rank beside all messages, so that ranks that wait too long tell each other why
  /// (WaitWatch). They may be lost. No wait() ends for one: a rank that expects them looks from time to time.
  void tell(int rank, const std::string& note) {
    count_sent({.messages = 1, .bytes = note.size()});
    start_tell(rank, note);
  }
  virtual std::optional<Note> hear() = 0;  ///< one that came, or none
  /// What the network itself tells of ranks that do not answer, in a sentence; "": nothing.
  virtual std::string network_says() const { return ""; }

  static constexpr double kForever = std::numeric_limits<double>::infinity();
  /// How long a thread sleeps that waits for a device: it is not woken.
  static constexpr double kDevicePollSeconds = 20e-6;

  /// Handed to the network so far. From any thread.
  Traffic traffic() const {
    return {messages_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)};
  }
  /// How long large messages (SendWindow) were with the network, until it had taken them: a slow link takes long. Those
  /// of one that has no window are not counted. From any thread.
  double sending_seconds() const { return sending_seconds_.load(std::memory_order_relaxed); }
  /// Counts what was handed over here, or beside this transport. From any thread.
  void count_sent(Traffic more) {
    messages_.fetch_add(more.messages, std::memory_order_relaxed);
    bytes_.fetch_add(more.bytes, std::memory_order_relaxed);
  }

  /// Memory of messages on their way: alive now is tracked here, the most at any time is told to any thread.
  void count_buffer(std::ptrdiff_t bytes) {
    buffer_bytes_ += bytes;
    if (buffer_bytes_ > peak_buffer_bytes_.load(std::memory_order_relaxed))
      peak_buffer_bytes_.store(buffer_bytes_, std::memory_order_relaxed);
  }
  std::uint64_t peak_buffer_bytes() const {
    return static_cast<std::uint64_t>(peak_buffer_bytes_.load(std::memory_order_relaxed));
  }

 protected:
  /// Hands a message to the network, or offers memory to it. May complete the request at once. Requests of one (peer,
  /// slot) come in the order in which they match.
  virtual void start(Request& request) = 0;
  virtual void cancel_started(Request& request) = 0;
  virtual void start_tell(int rank, const std::string& note) = 0;
  virtual int poll() = 0;                          ///< progress()
  virtual void sleep(double at_most_seconds) = 0;  ///< wait(), for a finite time

 private:
  friend class Staging;
  struct Queued {
    Request* request;
    int priority;
  };
  void post_from_host(Request& request, int priority);
  void cancel_from_host(Request& request);
  void hand_over(Request& request);
  void refill();
  void count_sending();

  SendWindow window_;
  std::deque<Queued> queue_;      // sends that wait for a place, the next one first
  std::vector<Request*> placed_;  // large sends that hold a place, the oldest first
  Clock::time_point moved_{};     // when a place was last taken or given back
  std::optional<Clock::time_point> sending_since_{};  // when the first of those that hold a place took it
  std::atomic<double> sending_seconds_{0};
  std::atomic<std::uint64_t> messages_{0}, bytes_{0};
  Staging staging_{*this};
  std::ptrdiff_t buffer_bytes_ = 0;
  std::atomic<std::ptrdiff_t> peak_buffer_bytes_{0};
};

/// One operation's view of a transport: all of its ranks, or some (subgroup). Views of one operation share what is
/// under way; the first one's cancel() reaches the others' too.
class TransportCommunicator final : public Communicator {
 public:
  static constexpr int kSlotsPerOperation = kChannels + 1;
  /// `slot`: the operation's, 0 <= slot < 2^31 / kSlotsPerOperation. `device`: the CUDA device whose memory may travel,
  /// if one may. `trace`: told what is sent and received, unless null.
  TransportCommunicator(Transport& transport, int slot, int priority, Device device = kCpu, HopTrace* trace = nullptr);
  ~TransportCommunicator() override { cancel(); }

  int rank() const override { return rank_; }
  int size() const override { return group_.empty() ? shared_->transport.size() : static_cast<int>(group_.size()); }
  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override;
  std::unique_ptr<Communicator> channel(int index) override;
  Transfer device_comes(Device device) override;
  void end(std::exception_ptr error) override;
  void count_buffer(std::ptrdiff_t bytes) override { shared_->transport.count_buffer(bytes); }
  void cancel() override;

  /// "waits for rank 3 (up to 4096 bytes to come) and 2 more transfers; 8192 bytes came and 0 went so far, in 2
  /// and 0 messages"; "" if no transfer is under way.
  std::string waits_for() const;

 private:
  struct Shared {
    Transport& transport;
    const int priority;
    const Device device;
    HopTrace* const trace;
    const Endpoint* const first;
    std::exception_ptr ended{};
    RequestPool pool{};
  };
  TransportCommunicator(std::shared_ptr<Shared> shared, std::vector<int> group, int rank, int slot)
      : shared_(std::move(shared)), group_(std::move(group)), rank_(rank), slot_(slot) {}
  Transfer post(Request::Kind kind, int peer, Slice<std::byte> memory) override;
  Transfer start(Request::Kind kind, int world_peer, int slot, Slice<std::byte> memory);

  const std::shared_ptr<Shared> shared_;
  const std::vector<int> group_;  // world ranks; empty: all
  const int rank_, slot_;         // slot_: the operation's times kSlotsPerOperation, plus 1 + channel
};

}  // namespace laconic::dist
