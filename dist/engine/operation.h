#pragma once
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/stream.h"
#include "dist/engine/hop_trace.h"
#include "dist/transport/transport.h"

namespace laconic::dist {

/// A task for the communication thread. `body` makes the coroutine; it is kept until the coroutine has ended, so a
/// lambda with captures may be the coroutine itself. Memory that it works on is left alone until waited for. On a CUDA
/// device that is an order of work there, and the compute thread may ask for more of it at once: the operation begins
/// when the device has done what was asked before submit(), so that an early one does not hold up others, and what is
/// asked after wait() comes after what the operation asked for.
struct Operation {
  std::string name{};  ///< name in errors: "allreduce conv1.weight"
  int slot = 0;        ///< the same on every rank: Engine::reserve_slots
  int priority = 0;    ///< larger goes first
  Device device{};     ///< the CUDA device whose memory it works on, if it does
  /// It only asks for work there (NCCL's): begins at once, in the order of submission and not of priority, and the
  /// device waits instead of the host. Among such operations the order of submission is the same on every rank.
  bool in_order = false;
  std::function<Task<>(Communicator&)> body{};
};

/// One operation, from its submission to its end. Belongs to the communication thread once that has taken it, and to
/// the thread that waits for it when it is done.
struct Running {
  Operation operation;
  std::uint64_t arrow = 0;                        // a trace's arrow; 0: none
  Event ready{}, ended{};                         // its device's work before it, and at its end
  std::unique_ptr<HopTrace> hops{};               // set while somebody is told of them
  std::unique_ptr<TransportCommunicator> comm{};  // set while it is under way
  Task<> task{};
  std::exception_ptr error{};
  bool done = false;
  Clock::time_point ended_at{};  // in virtual time

  /// Afterwards nothing that it held is held any more.
  void release() {
    if (comm) comm->cancel();
    task = {};
    operation.body = nullptr;
    comm.reset();
    hops.reset();
    ready = {};
  }
};
using RunningList = std::vector<std::shared_ptr<Running>>;

/// Operations that have not ended, by slot: the first of each may begin or has begun, and the others wait for it.
class OperationSlots {
 public:
  /// may_begin(it) if it is the first of its slot.
  template <class F>
  void add(std::shared_ptr<Running> running, F may_begin) {
    RunningList& slot = slots_[running->operation.slot];
    slot.push_back(std::move(running));
    if (slot.size() == 1) may_begin(*slot.front());
  }
  /// Takes out one that has ended. may_begin(the next of its slot) if there is one.
  template <class F>
  std::shared_ptr<Running> end(const Running& ended, F may_begin) {
    RunningList& slot = slots_[ended.operation.slot];
    std::shared_ptr<Running> dead = std::move(slot.front());
    slot.erase(slot.begin());
    if (!slot.empty()) may_begin(*slot.front());
    return dead;
  }
  template <class F>
  void for_each(F f) const {
    for (const auto& [number, slot] : slots_)
      for (const auto& running : slot) f(*running);
  }
  void clear() {
    for_each([](Running& running) { running.release(); });
    slots_.clear();
  }

 private:
  std::map<int, RunningList> slots_;
};

}  // namespace laconic::dist
