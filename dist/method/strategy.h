#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/trace.h"
#include "dist/method/ledger.h"
#include "dist/method/rank_state.h"
#include "dist/method/state_table.h"
#include "dist/update.h"

namespace laconic::dist {

/// What a strategy has cost on this rank since it was made; a step's share is the difference of two readings. Messages
/// are counted by the engine.
struct Costs {
  double select_seconds = 0;  ///< choosing what to send
  double update_seconds = 0;  ///< taking over what came: updates, copies
  /// With parameter servers: the bytes that this rank sent as a worker to servers, and as a server to workers.
  std::uint64_t bytes_up = 0, bytes_down = 0;
  std::uint64_t buffer_bytes = 0;  ///< memory that messages were put together in: the most at once

  /// What two parts of a strategy have cost.
  friend Costs operator+(Costs a, const Costs& b) {
    a.select_seconds += b.select_seconds, a.update_seconds += b.update_seconds;
    a.bytes_up += b.bytes_up, a.bytes_down += b.bytes_down, a.buffer_bytes += b.buffer_bytes;
    return a;
  }
};

/// A piece of a strategy's own work, while it lives: drawn in traces, and added to `seconds`.
class Doing {
 public:
  /// name : of the parameter;   what : "gather", "select", "update"
  Doing(const std::string& name, const char* what, double& seconds) : span_(name, what), seconds_(seconds) {}
  ~Doing() { seconds_ += seconds_since(begin_); }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

 private:
  const Trace::Span span_;
  double& seconds_;
  const Clock::time_point begin_ = Clock::now();
};

/// How the gradients of all ranks become one update: everything that a paper changes is in here. One object per rank,
/// called on its compute thread; hung into the arena as its listener. A step is
///
///   begin_step(context)      lr and step of the updates that this step's gradients will make
///   before_forward(p, rows)  as forward reaches them: waits until p is fresh, and applies its pending update
///   gradient_ready(p, rows)  as backward finishes them; rows of all parameters, each row once a step
///   end_step()               after backward
///
/// A parameter's pending update is applied before its gradient is written again, because its forward comes first.
class Strategy : public ParameterListener {
 public:
  virtual void begin_step(const StepContext& context) = 0;
  void gradient_ready(Parameter& parameter, Rows rows) override = 0;
  void before_forward(Parameter& parameter, Rows rows) override = 0;
  virtual void end_step() = 0;
  /// Waits for and applies everything pending: before evaluation, save, audit and stop. Every rank calls it at the same
  /// step. Afterwards all ranks hold the same bits (where the strategy promises that).
  virtual void flush() = 0;

  virtual Costs costs() const { return {}; }

  /// Bytes of memory that it takes for what travels, while all of a step's messages are on their way: what is chosen,
  /// and the room for what is sent and comes. What it has allocated when it is made is not counted here.
  virtual double message_bytes() const { return 0; }

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
  /// What this worker's parameter counts in the joint model, where workers hold different ones: weight_of() since all
  /// held the same. Nothing: since training began.
  virtual std::optional<double> weight_in_mean(const Parameter&) const { return {}; }

  /// Save and load the state that a checkpoint needs besides parameters and optimiser: the table, which a strategy
  /// fills when it is made. Called after a flush. Names begin with the strategy's. What is saved says how it goes over
  /// to another number of workers (Join); load() is given as much of this worker's in any case.
  /// load() throws DataError if something is missing, or of another model
  virtual void save(RankState& state) const { table_.save(state); }
  virtual void load(const StateDict& state) { table_.load(state); }
  /// The elements of WorkerSide::velocity that are this worker's own, after a flush: they are joined by
  /// TrainingFacts::put_by. Elsewhere all workers hold the same.
  virtual std::vector<RankState::Range> own_velocity() const { return {}; }

 protected:
  StateTable table_;
};

/// The model that is evaluated and saved where workers hold different parameters. A strategy brings it into the place
/// of the gradients, which nobody needs after a flush. Here it changes places with the worker's own.
///
///   cost     6 passes over the parameters; memory of a block of them, kBlock elements
class JointModel {
 public:
  /// The arena must outlive this.
  explicit JointModel(const ParameterArena& arena) : arena_(arena) {}

  /// The joint model stands in the place of the gradients: from now on in that of the parameters.
  void show();
  /// Puts back what was there.
  void hide() { swap(); }
  /// How far the worker's parameters were from the joint model at the last show(): the 2-norm of the difference, over
  /// that of the model.
  double drift() const { return drift_; }

 private:
  static constexpr std::int64_t kBlock = std::int64_t{1} << 20;
  void swap();
  /// f(a block of the parameters, the same of the gradients, as much room)
  template <class F>
  void in_blocks(F f) const;
  const ParameterArena& arena_;
  double drift_ = 0;
};

}  // namespace laconic::dist
