#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/stream.h"
#include "core/trace.h"
#include "dist/hop_trace.h"
#include "dist/transport/transport.h"

namespace laconic::dist {

/// A task for the communication thread. `body` makes the coroutine; it is kept until the coroutine has ended, so a
/// lambda with captures may be the coroutine itself. Memory that it works on is left alone until waited for. On a CUDA
/// device that is an order of work there, and the compute thread may ask for more of it at once: the operation begins
/// when the device has done what was asked before submit(), so that an early one does not hold up others, and what is
/// asked after wait() comes after what the operation asked for.
struct Operation {
  std::string name{};  ///< for errors: "allreduce conv1.weight"
  int slot = 0;        ///< the same on every rank: Engine::reserve_slots
  int priority = 0;    ///< larger goes first
  Device device{};     ///< the CUDA device whose memory it works on, if it does
  /// It only asks for work there (NCCL's): begins at once, in the order of submission and not of priority, and the
  /// device waits instead of the host. Among such operations the order of submission is the same on every rank.
  bool in_order = false;
  std::function<Task<>(Communicator&)> body{};
};

/// Stands for an operation that was submitted. Copies stand for the same one.
class Ticket {
 public:
  Ticket() = default;  ///< of nothing: finished
  bool valid() const { return state_ != nullptr; }

 private:
  friend class Engine;
  struct State {
    bool done = false;
    std::exception_ptr error;
    std::string name;         // for a trace
    std::uint64_t arrow = 0;  // of a trace; 0: none
    Event ended;              // on the operation's device
  };
  explicit Ticket(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// How much an engine did since it was made; a step's share is the difference of two readings.
struct EngineCounters {
  Traffic sent;
  double comm_seconds = 0;              ///< at least one operation was under way, or waited for its device
  double exposed_seconds = 0;           ///< the compute thread was blocked in wait
  std::uint64_t peak_buffer_bytes = 0;  ///< the most memory that operations held at once for messages on their way
};

/// The communication thread of one rank. The compute thread hands it operations; it keeps all of them in flight at
/// once, resuming whichever can go on, and sleeps when none is there (an idle engine costs nothing). Only this thread
/// touches the transport (or, while it sleeps, the compute thread in run()); the transport is made and destroyed on it,
/// as MPI wants. Operations with different slots
/// may be submitted in different orders on different ranks. Those of one slot run one after the other, in the order of
/// submission, which must be the same everywhere. With one rank operations run at once in the calling thread: they have
/// nobody to wait for. One compute thread uses it; abort() may come from any thread.
class Engine {
 public:
  struct Options {
    /// A wait ends with CommError after so long without anything arriving or leaving. From a quarter of it on (or 5 s)
    /// the ranks that wait tell each other for what, so that the sentence says who is missing: a rank that gives no
    /// sign of life, one that computes, or one at another operation; and a line for each rank follows.
    double timeout_seconds = 300;
  };

  /// `make` runs on the communication thread. Throws what it throws.
  explicit Engine(std::function<std::unique_ptr<Transport>()> make) : Engine(std::move(make), Options{}) {}
  Engine(std::function<std::unique_ptr<Transport>()> make, Options options);
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
  void wait(const Ticket& ticket, bool patiently = false);
  /// submit and wait, on slot 0: for broadcasts, checks and evaluation. Not counted as exposed. While nothing else is
  /// under way the calling thread does the work itself: handing it over and back would cost as much as a small
  /// exchange. `device`: as Operation's. `patiently`: as of wait().
  void run(std::string name, std::function<Task<>(Communicator&)> body, Device device = kCpu, bool patiently = false);
  /// Waits for everything submitted so far.
  void drain();

  /// Cancels everything under way on this rank, for good: afterwards the engine touches no memory of its operations any
  /// more. Whoever owns such memory calls it from its destructor, in case an exception unwinds past it; does nothing
  /// if nothing is under way.
  void halt() noexcept;

  /// Ends all ranks with this sentence, quickly. Under MPI it prints the sentence and ends the processes; between
  /// threads it makes every wait on every rank throw CommError with it.
  void abort(const std::string& reason, int exit_code = 1) noexcept;

  /// For an operation that is `in_order`, which does not give way to others: returns when its device has come to this
  /// point. `what` it waits for is said to whoever asks ("waits for ..."). Messages of other operations move meanwhile,
  /// but none of them goes on. On the communication thread.
  /// throws CommError after the time-out, or at once if the engine is to stop or another rank has aborted
  void wait_for_device(const Event& event, const std::string& what);
  /// So much was sent beside the transport. From any thread.
  void count_sent(Traffic more) {
    messages_beside_.fetch_add(more.messages, std::memory_order_relaxed);
    bytes_beside_.fetch_add(more.bytes, std::memory_order_relaxed);
  }

  /// `f` is called when this engine fails, before it waits for what its device still does: it ends what would wait for
  /// other ranks. From any thread. One at a time; an empty one: none.
  void at_failure(std::function<void()> f);

  EngineCounters counters() const;

  /// Where the compute thread is now, for what a time-out says of a rank that computes: two stores. `name` lives until
  /// after forget_place().
  enum class Phase : std::uint8_t { forward, backward };
  void at(Phase phase, const std::string& name) {
    phase_.store(phase, std::memory_order_relaxed);
    place_.store(&name, std::memory_order_release);
  }
  void forget_place();

  /// From now on operations are drawn there; null: nowhere. The row must outlive the engine's work.
  void set_trace(Trace::Row* row) { trace_ = row; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Running {  // one operation; belongs to the communication thread once it was taken
    Operation operation;
    Event ready;  // what its device had to do before
    std::shared_ptr<Ticket::State> ticket;
    std::unique_ptr<HopTrace> hops;  // while a trace is drawn
    std::unique_ptr<TransportCommunicator> comm;
    Task<> task;
    std::exception_ptr error;
  };
  using RunningList = std::vector<std::unique_ptr<Running>>;

  static double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
  void run_here(Running& running);
  void serve_until_stopped();
  void serve();
  bool turn();
  bool sleep_while_idle();
  void wait_working(const Ticket& ticket, bool patiently);
  bool take_submitted();
  void start_if_ready(Running& running);
  void start_ready();
  void start(Running& running);
  Task<> supervise(Running& running, std::vector<Running*>& finished);
  void finish();
  void fail(std::exception_ptr error);
  void wait_for(const Ticket& ticket, bool exposed, bool patiently = false);

  // engine_watch.cc
  void exchange_notes();
  void beat();
  std::string first_operation() const;
  std::string status() const;
  double silent_seconds(int rank) const;
  std::optional<int> silent_rank() const;
  std::string verdict() const;
  std::string describe() const;

  const Options options_;
  const double beat_seconds_, quiet_seconds_;  // how often ranks that wait speak, and after how long
  int rank_ = 0, size_ = 1;
  int next_slot_ = 1;

  std::atomic<Trace::Row*> trace_{nullptr};
  std::atomic<std::uint64_t> messages_beside_{0}, bytes_beside_{0};
  std::atomic<Phase> phase_{Phase::forward};
  std::atomic<const std::string*> place_{nullptr};
  mutable std::mutex place_mutex_;            // while the name is read
  std::uint64_t arrows_ = 0;                  // the compute thread's
  std::map<int, std::uint64_t> traced_runs_;  // by slot: the communication thread's

  // Between the two threads, under mutex_.
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // tickets, failure: the compute thread looks again
  std::condition_variable asked_;    // requests: the communication thread looks again, if it sleeps here
  RunningList submitted_;
  std::size_t open_ = 0;  // submitted and not ended
  std::exception_ptr failure_;
  bool idle_ = false;      // the communication thread sleeps, with nothing under way: what is its own may be borrowed
  bool borrowed_ = false;  // by the compute thread, in run()
  bool stop_ = false, halt_asked_ = false;
  bool abort_asked_ = false, abort_done_ = false;
  std::string abort_reason_;
  int abort_code_ = 1;
  std::optional<Clock::time_point> waiting_since_;  // the compute thread is blocked
  bool patient_ = false;                            // and does not mind while all ranks live
  double exposed_seconds_ = 0;
  double comm_seconds_ = 0;
  Clock::time_point busy_since_;
  Event ended_;  // of the last operation on a CUDA device
  std::mutex at_failure_mutex_;  // while it is called
  std::function<void()> at_failure_;

  // The communication thread's own; the compute thread's while borrowed_.
  std::unique_ptr<Transport> transport_;
  Scheduler scheduler_;
  std::map<int, RunningList> slots_;  // the first of each list is under way, the others wait for their slot
  std::vector<Running*> unready_;     // the first of their slots, whose device is not so far
  std::vector<Running*> finished_;
  const Running* standing_ = nullptr;  // in wait_for_device()
  std::string stands_for_;             // what that one waits for
  const Running* entered_ = nullptr;   // the last that has begun
  Device device_;  // of operations that were started, if a CUDA device is among them
  Clock::time_point last_progress_;  // something came, left or was submitted
  Clock::time_point last_beat_;
  std::string last_operation_;  // that ended
  Clock::time_point last_ended_;
  struct Sign {  // of life: what a rank last told about itself
    Clock::time_point heard{};
    std::string status{};
  };
  std::vector<Sign> signs_;  // by rank

  std::thread thread_;
};

}  // namespace laconic::dist
