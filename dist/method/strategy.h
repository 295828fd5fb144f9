#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/state.h"
#include "dist/method/ledger.h"
#include "dist/update.h"

namespace laconic::dist {

/// The costs of a step's exchange on this rank. Bytes are payload and headers of our own.
struct StepStats {
  std::uint64_t bytes_sent = 0;   ///< handed to the network since the last end_step; not what MPI's own allreduce moves
  std::uint64_t bytes_dense = 0;  ///< what a dense ring sends a step
  /// With parameter servers: the bytes that this rank sent as a worker to servers, and as a server to workers.
  std::uint64_t bytes_up = 0, bytes_down = 0;
  double select_ms = 0;   ///< choosing what to send
  double comm_ms = 0;     ///< at least one operation was under way
  double exposed_ms = 0;  ///< the compute thread was blocked; belongs to the step whose forward it blocked
  double update_ms = 0;   ///< in the update callback
  /// Memory of communication buffers since the start: the most that buckets were copied into at once, and the most that
  /// operations held for messages on their way.
  std::uint64_t buffer_bytes_peak = 0;
};

/// How the gradients of all ranks become one update: everything that a paper changes is in here. One object per rank,
/// called on its compute thread; hung into the arena as its listener. A step is
///
///   begin_step(context)      lr and step of the updates that this step's gradients will make
///   before_forward(p, rows)  as forward reaches them: waits until p is fresh, and applies its pending update
///   gradient_ready(p, rows)  as backward finishes them; rows of all parameters, each row once a step
///   end_step(stats)          after backward
///
/// A parameter's pending update is applied before its gradient is written again, because its forward comes first.
class Strategy : public ParameterListener {
 public:
  virtual void begin_step(const StepContext& context) = 0;
  void gradient_ready(Parameter& parameter, Rows rows) override = 0;
  void before_forward(Parameter& parameter, Rows rows) override = 0;
  virtual void end_step(StepStats& stats) = 0;
  /// Waits for and applies everything pending: before evaluation, save, audit and stop. Every rank calls it at the same
  /// step. Afterwards all ranks hold the same bits (where the strategy promises that).
  virtual void flush() = 0;

  /// Time that the strategy itself has computed so far, inside the calls above: choosing what to send, and updates that
  /// it makes without the callback.
  struct Work {
    double select_seconds = 0, update_seconds = 0;
  };
  virtual Work work() const { return {}; }

  /// Where the bytes of each parameter went, as forward reaches them; empty if the strategy keeps no account.
  virtual std::vector<LedgerRow> ledger() const { return {}; }

  /// Where ranks do not hold the same parameters: what is evaluated and saved as weights is a joint model. After a
  /// flush every rank calls show, which puts it into the arena, and, before anything else, hide, which puts back what
  /// was there. Elsewhere nothing happens.
  virtual void show_joint_model() {}
  virtual void hide_joint_model() {}
  /// How far this rank's parameters were from the joint model that was shown last: the 2-norm of the difference, over
  /// that of the model. Nothing where ranks are equal.
  virtual std::optional<double> drift() const { return {}; }

  /// Save and load the state that a checkpoint needs besides parameters and optimiser. Called after a flush. Names
  /// begin with the strategy's.
  virtual void save(StateDict&) const {}
  virtual void load(const StateDict&) {}
};

}  // namespace laconic::dist
