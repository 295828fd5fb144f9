#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/trace.h"
#include "dist/engine/operation.h"
#include "dist/engine/wait_watch.h"

namespace laconic::dist {

/// Stands for an operation that was submitted. Copies stand for the same one.
class Ticket {
 public:
  Ticket() = default;  ///< a ticket of nothing, which is finished
  bool valid() const { return running_ != nullptr; }

 private:
  friend class Engine;
  explicit Ticket(std::shared_ptr<Running> running) : running_(std::move(running)) {}
  std::shared_ptr<Running> running_;
};

/// How much an engine did since it was made; a step's share is the difference of two readings.
struct EngineCounters {
  Traffic sent;
  double comm_seconds = 0;              ///< time in which an operation was under way, or waited for its device
  double exposed_seconds = 0;           ///< time in which the compute thread was blocked in wait
  std::uint64_t peak_buffer_bytes = 0;  ///< the most memory that operations held at once for messages on their way
  double sending_seconds = 0;           ///< Transport::sending_seconds()
};

/// Carries out one rank's operations: a communication thread does (dist/engine/thread_engine.h), or one in virtual time
/// (dist/engine/virtual_time.h). The compute thread hands operations over; all of them are in flight at once, the most
/// urgent first. Operations with different slots may be submitted in different orders on different ranks. Operations of
/// one slot run one after the other, in the order of submission, which must be the same everywhere. One compute thread
/// uses it.
class Engine {
 public:
  Engine() = default;
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// `count` fresh slots, first one returned. Every rank asks in the same order. Slot 0 is the engine's own, for run().
  int reserve_slots(int count) {
    constexpr int kMost = std::numeric_limits<int>::max() / TransportCommunicator::kSlotsPerOperation;
    require<Error>(count >= 0 && count <= kMost - next_slot_, "engine: ", count, " more slots after ", next_slot_,
                   " are too many: there are ", kMost, " in all. Reserve them once and use them again.");
    return std::exchange(next_slot_, next_slot_ + count);
  }

  /// Hands over an operation: one lock and one wake-up. Throws CommError if the engine has failed.
  virtual Ticket submit(Operation operation) = 0;
  /// Blocks until the operation has ended (has asked its device for all it needs); rethrows what it threw. Throws
  /// CommError if nothing moves for the time-out (operation, peer and bytes so far, of every rank), or if another rank
  /// aborted (its sentence). While a rank is busy (dist/engine/busy.h) the time-out ends only what waits for one that
  /// gives no sign of life.
  virtual void wait(const Ticket& ticket) = 0;
  /// submit and wait, on slot 0: for broadcasts, checks and evaluation. Not counted as exposed. `device`: as
  /// Operation's. `patiently`: as if a rank were busy all the time, since others may be in a program that does not say
  /// so.
  virtual void run(std::string name, std::function<Task<>(Communicator&)> body, Device device = kCpu,
                   bool patiently = false) = 0;
  /// Waits for everything submitted so far.
  virtual void drain() = 0;

  /// Cancels everything under way on this rank, for good: afterwards the engine touches no memory of its operations any
  /// more. The owner of such memory calls it from its destructor, in case an exception unwinds past it; does nothing
  /// if nothing is under way.
  virtual void halt() noexcept = 0;

  /// Ends all ranks with this sentence, quickly. Under MPI it prints the sentence and ends the processes; between
  /// threads it makes every wait on every rank throw CommError with it. From any thread.
  virtual void abort(const std::string& reason, int exit_code = 1) noexcept = 0;

  /// For an operation that does not give way to others (one that is `in_order`, or alone): returns when `reached` says
  /// so, which is asked every few microseconds. `what` it waits for is said where it is asked for ("waits for ...").
  /// Messages of other operations move meanwhile, but none of them goes on. On the communication thread. throws what
  /// `reached` throws throws CommError after the time-out, or at once if the engine is to stop or another rank
  ///        has aborted
  virtual void wait_until(const std::function<bool()>& reached, const std::string& what) = 0;
  /// Counts what was sent beside the transport. From any thread.
  virtual void count_sent(Traffic more) = 0;

  /// What joins the ranks' devices beside the transport.
  class Beside {
   public:
    virtual ~Beside() = default;
    /// Since when it waits for other ranks, if it does: longer than the time-out ends the engine. Asked every beat, on
    /// the communication thread.
    /// throws what has failed there, which ends the engine too
    virtual std::optional<Clock::time_point> waits_since() = 0;
    /// The engine has failed, and will wait for what its device still does: that waits for no other rank any more.
    virtual void stop() noexcept = 0;
  };
  /// From any thread. One at a time; null: none.
  virtual void work_beside(Beside* beside) = 0;

  virtual EngineCounters counters() const = 0;

  /// The compute thread tells where it is, for what others hear of a rank that computes.
  using Phase = WaitWatch::Phase;
  virtual void at(Phase, const std::string& /*name*/) {}
  virtual void forget_place() {}

  /// From now on what happens is recorded there too. Called once.
  virtual void record(std::shared_ptr<FlightRecorder> /*flight*/) {}

  /// From now on operations are drawn there; null: nowhere. The row must outlive the engine's work.
  virtual void set_trace(Trace::Row* row) = 0;

 protected:
  static Ticket ticket_of(std::shared_ptr<Running> running) { return Ticket(std::move(running)); }
  /// Returns null for a ticket of nothing.
  static const std::shared_ptr<Running>& running_of(const Ticket& ticket) { return ticket.running_; }

  int rank_ = 0, size_ = 1;

 private:
  int next_slot_ = 1;  // the compute thread's
};

}  // namespace laconic::dist
