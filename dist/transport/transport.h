#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/communicator.h"
#include "dist/transport/native.h"
#include "dist/transport/staging.h"

namespace laconic::dist {

/// What was handed to the network so far: payload and headers of our own.
struct Traffic {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

/// The key of a map by which a receive finds its send: on one rank they match by (sender, slot).
inline std::uint64_t channel_key(int sender, int slot) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(sender)) << 32 | static_cast<std::uint32_t>(slot);
}

struct Note {
  int from = 0;
  std::string text{};
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
  /// NativeCollectives::allreduce of memory that may be a device's.
  void post_native(Request& request, NativeCollectives& collectives);
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
  /// (Engine). They may be lost. No wait() ends for one: whoever expects them looks from time to time.
  virtual bool can_tell() const { return false; }
  void tell(int rank, const std::string& note) {
    count_sent(note.size());
    start_tell(rank, note);
  }
  virtual std::optional<Note> hear() { return {}; }  ///< one that came, or none

  static constexpr double kForever = std::numeric_limits<double>::infinity();
  /// How long a thread sleeps that waits for a device: it is not woken.
  static constexpr double kDevicePollSeconds = 20e-6;

  /// Handed to the network so far. From any thread.
  Traffic traffic() const {
    return {messages_.load(std::memory_order_relaxed), bytes_.load(std::memory_order_relaxed)};
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
  /// Hand a message to the network; offer memory to it. May complete the request at once. Requests of one (peer, slot)
  /// come in the order in which they match.
  virtual void start_send(Request& request) = 0;
  virtual void start_recv(Request& request) = 0;
  virtual void cancel_started(Request& request) = 0;
  virtual void start_tell(int, const std::string&) {}
  virtual int poll() = 0;                          ///< progress()
  virtual void sleep(double at_most_seconds) = 0;  ///< wait(); kForever: no limit

 private:
  friend class Staging;
  using Clock = std::chrono::steady_clock;
  struct Queued {
    Request* request;
    int priority;
  };
  void post_from_host(Request& request, int priority);
  void cancel_from_host(Request& request);
  void count_sent(std::size_t bytes) {
    messages_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void hand_over(Request& request);
  void refill();

  SendWindow window_;
  std::deque<Queued> queue_;      // sends that wait for a place, the next one first
  std::vector<Request*> placed_;  // large sends that hold a place, the oldest first
  Clock::time_point moved_{};     // when a place was last taken or given back
  std::atomic<std::uint64_t> messages_{0}, bytes_{0};
  Staging staging_{*this};
  std::ptrdiff_t buffer_bytes_ = 0;
  std::atomic<std::ptrdiff_t> peak_buffer_bytes_{0};
};

/// One operation's view of a transport: all of its ranks, or some (subgroup).
class TransportCommunicator final : public Communicator {
 public:
  static constexpr int kSlotsPerOperation = kChannels + 1;
  /// `slot`: the operation's, 0 <= slot < 2^31 / kSlotsPerOperation. `device`: the CUDA device whose memory may travel,
  /// if one may.
  TransportCommunicator(Transport& transport, int slot, int priority, Device device = kCpu);
  ~TransportCommunicator() override;

  int rank() const override { return rank_; }
  int size() const override { return group_.empty() ? transport_.size() : static_cast<int>(group_.size()); }
  Transfer send(int to, Slice<const std::byte> bytes) override;
  Transfer recv(int from, Slice<std::byte> bytes) override;
  std::unique_ptr<Communicator> subgroup(std::span<const int> ranks) override;
  std::unique_ptr<Communicator> channel(int index) override;
  void end(std::exception_ptr error) override;
  void count_buffer(std::ptrdiff_t bytes) override { transport_.count_buffer(bytes); }
  void cancel() override;

  /// From now on what is sent and received is told there; null: nowhere. Before any subgroup is made.
  void set_trace(HopTrace* trace) { trace_ = trace; }

  /// The transport's own collectives; see dist/collective/native_allreduce.h. Throws UsageError if it has none, or if
  /// this is a subgroup.
  NativeCollectives& native() const;
  Transfer native_allreduce(Slice<float> x);

  /// "waits for rank 3 (up to 4096 bytes to come) and 2 more transfers; 8192 bytes came and 0 went so far"; "" if no
  /// transfer is under way.
  std::string waits_for() const;

 private:
  struct Waiting {
    std::string first{};  // transfer that is not done
    int count = 0;
    std::size_t received_bytes = 0, sent_bytes = 0;
  };
  Waiting waiting() const;  // children included
  TransportCommunicator(TransportCommunicator& parent, std::vector<int> group, int rank, int slot);
  Transfer post(Request::Kind kind, int peer, Slice<std::byte> memory);
  template <class F>
  static void begin(Request& request, F post);
  void require_named(Device device) const;

  Transport& transport_;
  TransportCommunicator* parent_ = nullptr;
  std::vector<TransportCommunicator*> children_;  // subgroups and channels alive: cancel() reaches them too
  std::vector<int> group_;                        // world ranks; empty: all
  int rank_, slot_, priority_;                    // slot_: the operation's times kSlotsPerOperation, plus 1 + channel
  Device device_;
  std::exception_ptr ended_;
  HopTrace* trace_ = nullptr;
  RequestPool pool_;
};

}  // namespace laconic::dist
