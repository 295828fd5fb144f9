#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/trace.h"
#include "dist/engine_queue.h"
#include "dist/wait_watch.h"

namespace laconic::dist {

/// Stands for an operation that was submitted. Copies stand for the same one.
class Ticket {
 public:
  Ticket() = default;  ///< of nothing: finished
  bool valid() const { return running_ != nullptr; }

 private:
  friend class Engine;
  explicit Ticket(std::shared_ptr<Running> running) : running_(std::move(running)) {}
  std::shared_ptr<Running> running_;
};

/// How much an engine did since it was made; a step's share is the difference of two readings.
struct EngineCounters {
  Traffic sent;
  double comm_seconds = 0;              ///< at least one operation was under way, or waited for its device
  double exposed_seconds = 0;           ///< the compute thread was blocked in wait
  std::uint64_t peak_buffer_bytes = 0;  ///< the most memory that operations held at once for messages on their way
};

/// When operations begin that are the first of their slots: those on a CUDA device when that has come to them. The
/// communication thread's.
class DeviceOrder {
 public:
  void add(Running& running) { waiting_.push_back(&running); }
  /// Takes those out that begin now: first what is in_order, then the most urgent.
  std::vector<Running*> take_ready();
  bool waits() const { return !waiting_.empty(); }
  bool waits(const Running& running) const {
    return std::find(waiting_.begin(), waiting_.end(), &running) != waiting_.end();
  }
  /// None of them begins any more. Returns when no device is at work for one that has begun.
  void abandon() noexcept;

 private:
  std::vector<Running*> waiting_;
  Device device_;  // of operations that have begun, if a CUDA device is among them
};

/// The communication thread of one rank. The compute thread hands it operations; it keeps all of them in flight at
/// once, resuming whichever can go on, and sleeps when none is there (an idle engine costs nothing). Only this thread
/// touches the transport (or, while it sleeps, the compute thread in run()); the transport is made and destroyed on it,
/// as MPI wants. Operations with different slots may be submitted in different orders on different ranks. Those of one
/// slot run one after the other, in the order of submission, which must be the same everywhere. With one rank
/// operations run at once in the calling thread: they have nobody to wait for. One compute thread uses it; abort() may
/// come from any thread.
class Engine {
 public:
  /// `make` runs on the communication thread. Throws what it throws.
  /// A wait ends with CommError after `timeout_seconds` without anything arriving or leaving. From a quarter of it on
  /// (or 5 s) waiting ranks tell each other what they wait for. So the sentence names the rank that is missing: one
  /// that gives no sign of life, one that computes, or one at another operation. A line for each rank follows.
  explicit Engine(std::function<std::unique_ptr<Transport>()> make, double timeout_seconds = 300);
  /// Cancels what is still under way (drain() first to let it end).
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// `count` fresh slots, first one returned. Every rank asks in the same order. Slot 0 is the engine's own, for run().
  int reserve_slots(int count);

  /// Hands over an operation: one lock and one wake-up. Throws CommError if the engine has failed.
  Ticket submit(Operation operation);
  /// Blocks until the operation has ended (has asked its device for all it needs); rethrows what it threw. Throws
  /// CommError if nothing moves for the time-out (operation, peer and bytes so far, of every rank), or if another rank
  /// aborted (its sentence).
  /// `patiently`: for what another rank may rightly take any time to do. The time-out then ends only what waits for a
  /// rank that gives no sign of life.
  void wait(const Ticket& ticket, bool patiently = false) { wait_for(ticket, true, patiently); }
  /// submit and wait, on slot 0: for broadcasts, checks and evaluation. Not counted as exposed. While nothing else is
  /// under way the calling thread does the work itself: handing it over and back would cost as much as a small
  /// exchange. `device`: as Operation's. `patiently`: as of wait().
  void run(std::string name, std::function<Task<>(Communicator&)> body, Device device = kCpu, bool patiently = false);
  /// Waits for everything submitted so far.
  void drain() { queue_.wait(nullptr, false, false); }

  /// Cancels everything under way on this rank, for good: afterwards the engine touches no memory of its operations any
  /// more. Whoever owns such memory calls it from its destructor, in case an exception unwinds past it; does nothing
  /// if nothing is under way.
  void halt() noexcept { queue_.halt(); }

  /// Ends all ranks with this sentence, quickly. Under MPI it prints the sentence and ends the processes; between
  /// threads it makes every wait on every rank throw CommError with it.
  void abort(const std::string& reason, int exit_code = 1) noexcept;

  /// For an operation that is `in_order`, which does not give way to others: returns when its device has come to this
  /// point. `what` it waits for is said to whoever asks ("waits for ..."). Messages of other operations move meanwhile,
  /// but none of them goes on. On the communication thread.
  /// throws CommError after the time-out, or at once if the engine is to stop or another rank has aborted
  void wait_for_device(const Event& event, const std::string& what);
  /// So much was sent beside the transport. From any thread.
  void count_sent(Traffic more) { transport_->count_sent(more); }

  /// `f` is called when this engine fails, before it waits for what its device still does: it ends what would wait for
  /// other ranks. From any thread. One at a time; an empty one: none.
  void at_failure(std::function<void()> f);

  EngineCounters counters() const;

  /// The compute thread tells the WaitWatch where it is.
  using Phase = WaitWatch::Phase;
  void at(Phase phase, const std::string& name) { watch_.at(phase, name); }
  void forget_place() { watch_.forget_place(); }

  /// From now on operations are drawn there; null: nowhere. The row must outlive the engine's work.
  void set_trace(Trace::Row* row) { trace_ = row; }

 private:
  void run_here(Running& running);
  void serve();
  bool turn();
  void start_ready();
  void begin(Running& running, Scheduler& scheduler, std::vector<Running*>& finished);
  Task<> supervise(Running& running, std::vector<Running*>& finished);
  void finish();
  void fail(std::exception_ptr error);
  void wait_for(const Ticket& ticket, bool exposed, bool patiently);
  std::vector<WaitWatch::Waiting> waiting() const;

  int rank_ = 0, size_ = 1;
  int next_slot_ = 1;         // the compute thread's
  std::uint64_t arrows_ = 0;  // likewise
  std::atomic<Trace::Row*> trace_{nullptr};
  OperationQueue queue_;
  std::mutex at_failure_mutex_;  // while it is called
  std::function<void()> at_failure_;

  // The communication thread's own; the compute thread's while it has borrowed them.
  std::unique_ptr<Transport> transport_;
  Scheduler scheduler_;
  std::map<int, RunningList> slots_;  // the first of each list is under way, the others wait for their slot
  DeviceOrder order_;
  WaitWatch watch_;
  std::vector<Running*> finished_;
  const Running* standing_ = nullptr;         // in wait_for_device()
  std::string stands_for_;                    // what that one waits for
  const Running* entered_ = nullptr;          // the last that has begun
  std::map<int, std::uint64_t> traced_runs_;  // by slot

  std::thread thread_;
};

}  // namespace laconic::dist
