#pragma once
#include <algorithm>
#include <atomic>
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

#include "dist/engine/engine.h"
#include "dist/engine/engine_queue.h"

namespace laconic::dist {

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
  Device device_;  // device of operations that have begun, if it is a CUDA device
};

/// The communication thread of one rank. It keeps all operations in flight at once, resuming whichever can go on, and
/// sleeps when none is there (an idle engine costs nothing). Only this thread touches the transport (or, while it
/// sleeps, the compute thread in run()); the transport is made and destroyed on it, as MPI wants. With one rank
/// operations run at once in the calling thread: they have nobody to wait for.
class ThreadEngine final : public Engine {
 public:
  /// `make` runs on the communication thread. Throws what it throws.
  /// A wait ends with CommError after `timeout_seconds` without anything arriving or leaving. From a quarter of it on
  /// (or 5 s) waiting ranks tell each other what they wait for. So the sentence names the rank that is missing: one
  /// that gives no sign of life, one that computes, or one at another operation. A line for each rank follows. While a
  /// rank says that it is busy, the wait goes on. The calling thread is the compute thread.
  ///   tell_seconds : as WorldOptions has it
  explicit ThreadEngine(std::function<std::unique_ptr<Transport>()> make, double timeout_seconds = 300,
                        double tell_seconds = 30);
  /// Cancels what is still under way (drain() first to let it end).
  ~ThreadEngine() override;

  Ticket submit(Operation operation) override;
  void wait(const Ticket& ticket) override { wait_for(ticket, true, false); }
  /// While nothing else is under way the calling thread does the work itself: handing it over and back would cost as
  /// much as a small exchange.
  void run(std::string name, std::function<Task<>(Communicator&)> body, Device device = kCpu,
           bool patiently = false) override;
  void drain() override { queue_.wait(nullptr, false, false); }
  void halt() noexcept override { queue_.halt(); }
  void abort(const std::string& reason, int exit_code = 1) noexcept override;
  void wait_until(const std::function<bool()>& reached, const std::string& what) override;
  void count_sent(Traffic more) override { transport_->count_sent(more); }
  void work_beside(Beside* beside) override;
  EngineCounters counters() const override;
  void at(Phase phase, const std::string& name) override;
  void forget_place() override { watch_.forget_place(); }
  void set_trace(Trace::Row* row) override { trace_ = row; }
  void record(std::shared_ptr<FlightRecorder> flight) override {
    kept_flight_ = std::move(flight);
    flight_ = kept_flight_.get();
  }

 private:
  void run_here(Running& running);
  void serve();
  bool turn();
  void start_ready();
  void begin(Running& running, Scheduler& scheduler, std::vector<Running*>& finished);
  Task<> supervise(Running& running, std::vector<Running*>& finished);
  void finish();
  void beat();
  void fail(std::exception_ptr error);
  void wait_for(const Ticket& ticket, bool exposed, bool patiently);
  std::vector<WaitWatch::Waiting> waiting() const;

  std::uint64_t arrows_ = 0;  // the compute thread's
  std::atomic<Trace::Row*> trace_{nullptr};
  std::shared_ptr<FlightRecorder> kept_flight_;
  std::atomic<FlightRecorder*> flight_{nullptr};
  OperationQueue queue_;
  std::mutex beside_mutex_;  // held while beside_ is called
  Beside* beside_ = nullptr;

  // The communication thread's own; the compute thread's while it has borrowed them.
  std::unique_ptr<Transport> transport_;
  Scheduler scheduler_;
  OperationSlots slots_;
  DeviceOrder order_;
  WaitWatch watch_;
  std::vector<Running*> finished_;
  const Running* standing_ = nullptr;  // the operation in wait_until()
  std::string stands_for_;             // what standing_ waits for
  const Running* entered_ = nullptr;   // the last that has begun
  std::map<int, std::uint32_t> runs_;  // operations that have begun, by slot
  std::optional<Clock::time_point> beside_waits_since_;

  std::thread thread_;
};

}  // namespace laconic::dist
