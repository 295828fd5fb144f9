#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/atomic_file.h"
#include "core/state.h"
#include "dist/trainer/workload.h"
#include "layers/module.h"

namespace laconic {

/// Copies weights into the model, all of them finite numbers. `where` is the file's path, `what` the model's name, for
/// the message.
///   new_head : the output layer (ParameterInfo::output) keeps its values, whatever the file has of it
/// throws DataError naming the first mismatch: expected and found shapes, or a setting of the model (Module::settings())
///        that the weights were saved with and that is another one
void load_weights(Module& model, const StateDict& weights, const std::string& where, const std::string& what,
                  bool new_head = false);
/// The name of the model whose weights these are, by their texts, as a trainer has saved it; "" where nobody did.
std::string model_of(const std::map<std::string, std::string>& texts);

/// Says what a checkpoint is a checkpoint of. It is written last: a checkpoint without a manifest does not count.
///
///   DIR/run.json                       whose folder it is: the lines of Manifest::fingerprint that must not change
///   DIR/flight/                        what happened last, while a training runs and where it broke off
///   DIR/weights.safetensors            the model alone (running statistics averaged over ranks)
///   DIR/checkpoint-000000001200/       after 1200 steps
///       rank-0.safetensors …           parameters, buffers, optimiser, schedule and strategy of each rank
///       manifest.json                  the fields below, and a checksum of itself
struct Manifest {
  static constexpr const char* kFile = "/manifest.json";  ///< in the checkpoint's folder
  std::int64_t step = 0;
  int workers = 1;
  int threads = 1;                ///< kernel threads per worker: other numbers may give other last bits
  std::string instruction_set{};  ///< likewise
  std::string fingerprint{};      ///< model, data and options that must not change
  std::string plan{};             ///< what travels how (JSON); a resumed run uses it again
  /// Where in the data it is. Nothing: written by an earlier version; the step tells it for as many workers.
  std::optional<DataPosition> position{};
  /// Updates of an epoch with as many workers as the training began with. Nothing: written by an earlier version.
  std::optional<std::int64_t> first_steps_per_epoch{};
  std::string run{};              ///< a number drawn when the training began, which resumed runs keep
  std::vector<FileSum> ranks{};   ///< of each rank's file, servers' last; empty: written before there were checksums
  FileSum weights{};              ///< of weights.safetensors as it was when this was the newest checkpoint
  int files() const { return ranks.empty() ? workers : static_cast<int>(ranks.size()); }  ///< of ranks
  std::string json() const;  ///< the file
};

/// The first lines in which two fingerprints tell different trainings apart, {then, now}; nothing if they tell of one.
/// Lines that may change between runs of one training (how messages travel, the precision of products, how many servers
/// there are, where its data lie) are passed over, and so are settings that can
/// have only one value now.
std::optional<std::pair<std::string, std::string>> other_training(const std::string& then, const std::string& now);

/// The part of one directory that a trainer writes to and resumes from. All file names are made here, and nothing is
/// removed that has another name.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string directory);
  CheckpointStore(const CheckpointStore&) = delete;
  CheckpointStore& operator=(const CheckpointStore&) = delete;
  ~CheckpointStore();

  /// What this training may replace here.
  enum class Replaces : std::uint8_t {
    nothing,  ///< the training begins
    own,      ///< of this training: it goes on, or had saved no checkpoint yet
    all
  };
  /// Makes sure that `rank` can write here: makes the directory, and on rank 0 keeps other runs out while this object
  /// lives (flock). Nothing stays behind unless begin() follows.
  /// throws UsageError  another run saves here now; or what is here is not to be replaced
  ///        DataError   the directory cannot be made, or written to
  void claim(int rank, const std::string& fingerprint, Replaces replaces);
  /// throws UsageError  a training that began there would replace a checkpoint, or weights
  static void require_nothing_saved(const std::string& directory);
  /// From now on this is the folder of the training that has claimed it. On rank 0.
  void begin();

  /// Makes a file in the folder by which others find out whether theirs is the same. It goes with what is returned.
  /// throws DataError
  std::shared_ptr<void> sign(const std::string& name) const;
  bool has_sign(const std::string& name) const;

  std::string weights_path() const { return directory_ + "/weights.safetensors"; }
  std::string flight_folder() const { return directory_ + "/flight"; }
  /// Makes the directories; a checkpoint of this step that is there no longer counts. throws DataError
  void prepare(std::int64_t step) const;
  /// Writes a rank's file, which says whose it is. `state` gets that as a text.
  FileSum write_rank(const std::string& run, std::int64_t step, int rank, StateDict& state) const;
  /// Completes the checkpoint of this step. Then removes all but the `keep` newest of this training, those of later
  /// steps (they are of a training that this one has replaced) and what killed runs left. After all ranks have written.
  void complete(const Manifest& manifest, int keep) const;

  /// The complete checkpoints in `path`, the newest first, or `path` itself if it is one: their folders.
  static std::vector<std::string> all_in(const std::string& path);
  /// The first of them. throws DataError if there is none
  static std::string newest(const std::string& path);
  /// throws DataError if it is damaged, or of a format that this version does not read
  static Manifest read_manifest(const std::string& checkpoint);
  /// throws DataError if the rank's file is not the one that the manifest lists. Reads all of it; does nothing if the
  /// manifest lists none.
  static void verify(const std::string& checkpoint, const Manifest& manifest, int rank);
  static StateDict read_rank(const std::string& checkpoint, int rank);
  /// Calls f(state) for what each server has saved, dedicated or among the workers.
  static void each_server(const std::string& checkpoint, const Manifest& manifest,
                          const std::function<void(const StateDict& server)>& f);

 private:
  std::string folder(std::int64_t step) const;
  std::string sign_path(const std::string& name) const { return directory_ + "/sign-" + name; }
  std::string record_path() const { return directory_ + "/run.json"; }
  void lock();
  void refuse_foreign() const;
  static void remove(const std::string& checkpoint);

  std::string directory_;
  std::string training_;           // that has claimed it: its fingerprint
  std::vector<std::string> made_;  // directories, the outermost first: they go again unless begun
  int lock_ = -1;                  // the open record
  bool made_record_ = false, begun_ = false;
};

}  // namespace laconic
