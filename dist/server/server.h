#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "core/state.h"
#include "dist/server/joint_norm.h"
#include "dist/server/leg.h"
#include "dist/server/shard.h"
#include "dist/server/turns.h"
#include "dist/update.h"

namespace laconic::dist {

/// Where a parameter, or some rows of it, lies that a server has.
struct Place {
  std::int64_t workers_offset = 0;  ///< place in the workers' arena
  std::int64_t offset = 0;          ///< place in the server's arena
  std::int64_t index = 0;           ///< number among the server's parameters
  std::int64_t elements = 0;
  Tensor values{};
};
/// The places that a server's state tells of. throws DataError if a text is none
std::vector<Place> places_in(const StateDict& server);

/// The serving half of a parameter server ("Plump-DP", INCEPTIONN's worker-aggregator): values, optimiser and sums of
/// some buckets. The other half is the workers' strategy (dist/method/ps/ps_sync.h). Once a step, bucket by bucket,
/// each in a slot of its own, beside all others:
///
///     worker 0 ... N-1                                  server of the bucket
///     ──────────────                                    ────────────────────
///     its gradient is ready
///       if it is large, asks  ────────────────────────▶ all have asked, and others have come: its turn
///       push, in pieces  ──────────────── up ─────────▶ sum = part 0 + part 1 + … + part N-1     in rank order
///                                                       update(sum)             momentum and weight decay live here
///       before its next forward ◀──────── down ───────  new values, the same bytes to all
///     value = what came
///
/// Through a codec on the way down the workers hold what it makes of the server's values, all the same; the server goes
/// on with its own. With Legs::differences it remembers what they hold, and sends how far its values are from that.
///
/// All of a round runs on the communication thread: where the server is a worker too, its compute thread trains
/// meanwhile, and nobody but this thread touches the shard while rounds are under way. A dedicated server is told by
/// rank 0 when a round begins (control.h); a colocated one learns it from its own strategy.
class ParameterServer {
 public:
  struct Options {
    std::vector<int> workers;  ///< ranks that push and pull, ascending
    Legs legs{};
    std::shared_ptr<JointNorm> norm{};  ///< limits the length of the whole gradient; null: nothing does
  };
  /// update : from Parameter::grad() of the shard's parameters, times context.gradient_scale; called on the
  /// communication thread. The shard must outlive the server.
  ParameterServer(Shard& shard, Update update, Options options)
      : shard_(shard),
        update_(std::move(update)),
        o_(std::move(options)),
        held_(o_.legs.differences ? shard.arena().make_state() : Tensor()),
        versions_(shard.units().size()),
        steps_(shard.units().size()) {}
  virtual ~ParameterServer() = default;
  ParameterServer(const ParameterServer&) = delete;
  ParameterServer& operator=(const ParameterServer&) = delete;

  /// One round. context.gradient_scale, lr and step are the update's.
  /// throws CommError if a worker sends something else than is due
  virtual Task<> serve(Communicator& comm, const Shard::Unit& unit, StepContext context);

  /// All of a bucket to all workers, as it is, whatever a round would send.
  Task<> show(Communicator& comm, const Shard::Unit& unit);

  const Shard& shard() const { return shard_; }
  /// Handed to the network on the way down so far. Any thread.
  std::uint64_t bytes_down() const { return sent_.load(std::memory_order_relaxed); }

  static constexpr int kTurns = 2;  ///< buckets that come at once, of those that ask for a turn
  /// Bytes of memory that it takes for messages, as Strategy::message_bytes().
  virtual double message_bytes() const;

  /// Has an operation of its own in every round. Null: there is none.
  JointNorm* norm() const { return o_.norm.get(); }

  /// Values, what the workers hold if that travels as differences, and how often each bucket was updated; the optimiser
  /// is the caller's. While no round is under way. A text says of each value where its elements lie (Place). So
  /// other servers, or other workers', find values and the optimiser's state. Everything else begins anew then.
  virtual void save(StateDict& state) const;
  /// throws DataError if these are not of this shard
  virtual void load(const StateDict& state);

 protected:
  std::size_t place(const Shard::Unit& unit) const { return static_cast<std::size_t>(&unit - shard_.units().data()); }
  std::int64_t& version(const Shard::Unit& unit) { return versions_[place(unit)]; }
  /// The bucket's new values to these workers: the end of its round.
  Task<> send_values(Communicator& comm, const Shard::Unit& unit, const StepContext& context);
  /// First in a round. throws CommError if this bucket has had one of this step or a later one: nothing is added twice
  void begin_round(const Shard::Unit& unit, const StepContext& context);
  /// The sum stands in the shard: context.gradient_scale becomes what it is after clipping, once that is known.
  Task<> limit(const Shard::Unit& unit, StepContext& context);
  /// The sum stands in the shard: one update of all the bucket holds.
  void apply(const Shard::Unit& unit, const StepContext& context);
  /// Waits until all workers have asked for the turn of a bucket, and gives it to them. end_turn() when it has come.
  Task<> begin_turn(Communicator& comm, const Shard::Unit& unit, const StepContext& context);
  void end_turn() { turns_.give_back(); }
  const std::vector<int>& workers() const { return o_.workers; }
  const Legs& legs() const { return o_.legs; }
  std::atomic<std::uint64_t>& sent() { return sent_; }

 private:
  Tensor held(const Shard::Unit& unit) const { return held_.range(unit.offset, unit.elements); }

  Shard& shard_;
  Update update_;
  const Options o_;
  Tensor held_;                         // values that workers hold, laid out like the shard; with Legs::differences
  std::vector<std::int64_t> versions_;  // updates so far, by unit
  std::vector<std::int64_t> steps_;     // step of the last round, by unit
  Turns turns_{kTurns};  // one comes while the last pieces of another do
  std::atomic<std::uint64_t> sent_{0};
};

}  // namespace laconic::dist
