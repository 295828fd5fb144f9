#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/server/control.h"
#include "dist/trainer/checkpoint.h"
#include "dist/trainer/options.h"
#include "dist/world.h"

namespace laconic {

/// A rank's means to serve: its share of the parameters, their optimiser, and the method's server.
class ServerHalf {
 public:
  /// all : the model's parameters in arena order.   owner : of each bucket, 0 .. servers-1; this is number `server`
  /// `facts` outlive it
  ServerHalf(const dist::Method& method, const dist::TrainingFacts& facts, const TrainerOptions& options,
             const dist::Plan& plan, const std::vector<ParameterInfo>& all, const std::vector<int>& owner, int server);

  const dist::Shard& shard() const { return *shard_; }
  dist::ParameterServer& server() { return *server_; }

  /// Memory that it has allocated, and that it takes for messages.
  double bytes() const { return bytes_; }
  double message_bytes() const { return server_->message_bytes(); }

  /// Values, optimiser, counts of updates.
  void save(StateDict& state) const;
  /// throws DataError if that is another server's
  void load(const StateDict& state);
  /// Takes over what the servers of a checkpoint with another number of them, or of workers, have of the optimiser.
  /// Values come from the workers (Servers::give_values); everything else begins anew.
  /// throws DataError if there is less than this server has to know
  void rejoin(const std::string& checkpoint, const Manifest& manifest);

 private:
  std::ptrdiff_t before_;
  std::unique_ptr<dist::Shard> shard_;
  std::unique_ptr<Optimizer> optimizer_;  // null: the workers update
  std::unique_ptr<dist::ParameterServer> server_;
  double bytes_ = 0;
};

/// Parameter servers, as a worker's trainer sees them: dedicated ones, or its own half.
class Servers {
 public:
  /// Its three arguments must outlive it.
  Servers(const dist::Worker& worker, const dist::Plan& plan, const ParameterArena& arena)
      : worker_(worker), plan_(plan), arena_(arena) {
    if (worker.servers() > 0) control_.emplace(worker.engine, worker.size);
  }

  /// Tells `side` which rank serves which bucket, and what else a worker's half needs to meet its servers. If servers
  /// are colocated, makes this rank's.
  void join(dist::WorkerSide& side, const dist::Method& method, const TrainerOptions& options);
  /// All workers hold rank 0's parameters: now the servers get theirs.
  void give_values() const;
  /// The values that the servers of a checkpoint hold, into this worker's arena. throws DataError if some are missing
  void take_values(const std::string& checkpoint, const Manifest& manifest) const;
  void tell(const dist::Command& command) {
    if (control_) control_->tell(command);
  }
  /// Compares the bits that the servers hold with those of the workers. throws Error
  void audit(std::int64_t step);
  /// Memory of the dedicated server that needs most, with its messages; 0 if there are none.
  double dedicated_bytes(const dist::Method& method, const dist::TrainingFacts& facts, TrainerOptions options) const;
  ServerHalf* half() { return half_.get(); }  ///< null: this worker serves nothing

 private:
  Tensor values(std::size_t bucket) const {
    return arena_.values().range(plan_.buckets[bucket].offset, plan_.buckets[bucket].elements);
  }
  const dist::Worker& worker_;
  const dist::Plan& plan_;
  const ParameterArena& arena_;
  std::unique_ptr<ServerHalf> half_;
  std::vector<int> server_rank_;                // by bucket
  std::optional<dist::ServerControl> control_;  // where there are dedicated servers
};

/// As FNV-1a, but a word at a time, over the bits of these values, going on from `hash`.
std::uint64_t checksum(Slice<const float> values, std::uint64_t hash = 1469598103934665603u);

/// A dedicated server from start to end: hears from rank 0 what the model is, takes its values, and then does what rank
/// 0 tells it (dist/server/control.h), step by step, until it is told to leave. It has no model and no data.
///   options : as the workers have them
/// throws CommError if a worker is lost, or was started with other options
void serve(dist::Worker& worker, const dist::Method& method, const TrainerOptions& options);

}  // namespace laconic
