#pragma once
#include <optional>
#include <string>

#include "dist/trainer/checkpoint.h"
#include "dist/world.h"

namespace laconic {

struct TrainerOptions;

/// Saving and resuming, as one rank, worker or server, takes part in it. All ranks call the same at once. Their
/// meetings wait as long as all of them live, for a disk may be slow.
class Checkpointing {
 public:
  /// Looks for the checkpoint to go on from: the newest in options.resume that every rank finds whole. One that is
  /// damaged is passed over with a warning, unless it is the one that options.resume names. Its files are shared out to
  /// be looked at, where it is of other ranks. The options outlive this.
  /// throws DataError  there is none, and not options.resume_if_any; or none is whole: the sentence is the newest one's
  Checkpointing(dist::Worker& worker, const TrainerOptions& options);

  /// What the checkpoint says that the run goes on from. Nothing: a training begins.
  const std::optional<Manifest>& resumed() const { return resumed_; }
  /// It is of as many workers and servers: each rank goes on with its own file.
  bool same_ranks() const;
  const std::string& folder() const { return folder_; }  ///< of that
  StateDict state() const { return CheckpointStore::read_rank(folder_, worker_.rank); }
  /// Compares it with a run of this fingerprint on this processor; tells on rank 0 what may differ.
  /// throws DataError  it is of another training
  void require_same_training(const std::string& fingerprint, const std::string& processor) const;

  /// Makes sure that there is a place to save to, the same one for all ranks. fingerprint : of the training
  /// throws UsageError  another run saves there, or ranks on other machines do not see it
  void claim(const std::string& fingerprint);
  bool saves() const { return store_.has_value(); }
  /// From now on the folder is this training's.
  void begin() {
    if (store_ && worker_.rank == 0) store_->begin();
  }
  std::string weights_path() const { return store_->weights_path(); }
  void prepare(std::int64_t step) const { store_->prepare(step); }
  /// Writes this rank's part of a checkpoint, which then counts. manifest : rank 0's, without files and run; of others
  /// only its step is read
  void write(StateDict& state, Manifest manifest);
  std::int64_t saved_step() const { return saved_step_; }  ///< of the last checkpoint; -1: none

 private:
  void require_one_folder();

  dist::Worker& worker_;
  const TrainerOptions& o_;
  std::optional<CheckpointStore> store_;  // where there is a place to save to
  std::optional<Manifest> resumed_;
  std::string folder_;
  std::string run_;  // of a training: in all of its checkpoints; rank 0's counts
  std::int64_t saved_step_ = -1;
};

/// Everybody's texts, by rank, servers included: a meeting of all ranks.
std::vector<std::string> meet(dist::Engine& engine, const std::string& what, const std::string& mine);

}  // namespace laconic
