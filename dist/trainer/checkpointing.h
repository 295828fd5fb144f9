#pragma once
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/engine/busy.h"
#include "dist/engine/flight.h"
#include "dist/trainer/checkpoint.h"
#include "dist/world.h"

namespace laconic {

struct TrainerOptions;

/// Saving and resuming, as one rank, worker or server, takes part in it. All ranks call the same at once. A rank whose
/// disk is slow is busy with it (dist/engine/busy.h).
///
/// A checkpoint is written while the training goes on: begin_write() starts a thread on each rank, written() says when
/// that has come to its end, ranks tell each other with the figures of their steps, and count() makes it one that
/// counts. finish() waits for all of that.
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
  StateDict state() const;
  /// Compares it with a run of this fingerprint on this processor; tells on rank 0 what may differ.
  /// throws DataError  it is of another training
  void require_same_training(const std::string& fingerprint, const std::string& processor) const;

  /// Makes sure that there is a place to save to, the same one for all ranks. fingerprint : of the training
  /// throws UsageError  another run saves there, it holds what would be replaced, or ranks on other machines do not see
  ///                    it
  void claim(const std::string& fingerprint);
  bool saves() const { return store_ != nullptr; }
  /// From now on the folder is this training's, and the last that happens on a rank is recorded there.
  void begin();
  /// For the compute thread; null where nothing is recorded.
  dist::FlightRecorder* flight() const { return flight_.get(); }
  /// The training ends in order.
  void end() {
    if (flight_) flight_->forget();
  }
  /// Finishes the checkpoint before, and begins to write this rank's part of another. Nobody changes these tensors
  /// until finish().
  ///   manifest : rank 0's, without files and run; of others only its step is read
  ///   weights  : rank 0's, for a file of their own; may be empty
  void begin_write(StateDict state, Manifest manifest, StateDict weights = {});
  /// This rank's part, if it has been written and does not count yet. throws DataError as writing did
  FileSum written();
  /// If these are all parts of the checkpoint that was begun, rank 0 completes it, on a thread.
  ///   at : the step whose figures told them. Figures up to the checkpoint's own step may still tell of the one before.
  void count(const std::vector<FileSum>& files, std::int64_t at);
  /// Returns when the checkpoint that was begun last counts. throws DataError as writing did
  void finish();
  bool unfinished() const { return unfinished_; }  ///< there is something to finish; the same on all ranks
  std::int64_t saved_step() const { return saved_step_; }  ///< of the checkpoint that was begun last; -1: none

 private:
  struct Sums {
    FileSum part, weights;
  };
  struct Begun {
    Manifest manifest;
    std::shared_ptr<std::future<Sums>> writing;
    std::optional<Sums> sums{};  // once it has been written
  };
  const Sums& await_sums();
  void complete(std::vector<FileSum> files);
  void require_one_folder();
  CheckpointStore::Replaces replaces() const;

  dist::Worker& worker_;
  const TrainerOptions& o_;
  std::shared_ptr<dist::FlightRecorder> flight_;
  std::shared_ptr<CheckpointStore> store_;  // where there is a place to save to
  std::optional<Manifest> resumed_;
  std::string folder_;
  std::string run_;  // of a training: in all of its checkpoints; rank 0's counts
  std::int64_t saved_step_ = -1;
  bool unfinished_ = false;       // a checkpoint may not count yet; the same on all ranks
  std::optional<Begun> begun_{};  // while parts of it may be missing
  std::shared_ptr<std::future<void>> completing_;  // rank 0's
};

/// A state in memory of its own, which goes on to say what it says now.
StateDict copy_of(const StateDict& state);

/// What a rank does before its first step, for dist::Busy.
inline constexpr const char* kPrepares = "prepares the training";

/// Everybody's texts, by rank, servers included: a meeting of all ranks.
std::vector<std::string> meet(dist::Engine& engine, const std::string& what, const std::string& mine);

}  // namespace laconic
