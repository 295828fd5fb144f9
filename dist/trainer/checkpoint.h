#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/state.h"
#include "layers/module.h"

namespace laconic {

/// Parameters and buffers under their names, as torchvision would name them; a tied parameter once, under its first
/// name. The tensors share memory with the model.
StateDict weights_of(const Module& model);

/// Copies weights into the model. `where` is the file's path, `what` the model's name, for the message.
/// throws DataError naming the first mismatch, expected and found shapes
void load_weights(Module& model, const StateDict& weights, const std::string& where, const std::string& what);

/// What a checkpoint is of. Written last: a checkpoint without a manifest does not count.
///
///   DIR/weights.safetensors            the model alone (running statistics averaged over ranks)
///   DIR/checkpoint-000000001200/       after 1200 steps
///       rank-0.safetensors …           parameters, buffers, optimiser, schedule and strategy of each rank
///       manifest.json                  the fields below
struct Manifest {
  std::int64_t step = 0;
  int workers = 1;
  int threads = 1;              ///< kernel threads per worker: other numbers may give other last bits
  std::string instruction_set;  ///< likewise
  std::string fingerprint;      ///< model, data and options that must not change
  std::string plan;             ///< what travels how (JSON); a resumed run uses it again
};

/// The part of one directory that a trainer writes to and resumes from. All file names are made here.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::string directory) : directory_(std::move(directory)) {}

  std::string weights_path() const { return directory_ + "/weights.safetensors"; }
  /// Makes the directories; a checkpoint of this step that is there no longer counts. throws DataError
  void prepare(std::int64_t step) const;
  void write_rank(std::int64_t step, int rank, const StateDict& state) const;
  /// Completes the checkpoint of this step and removes all but the two newest, and those of later steps: they are of
  /// a training that this one has replaced. After all ranks have written.
  void complete(const Manifest& manifest) const;

  /// The newest complete checkpoint in `path`, or `path` itself if it is one: its folder.
  /// throws DataError if there is none
  static std::string newest(const std::string& path);
  static Manifest read_manifest(const std::string& checkpoint);
  static StateDict read_rank(const std::string& checkpoint, int rank);

 private:
  std::string folder(std::int64_t step) const;
  std::string directory_;
};

/// "avx512", "avx2" or "baseline": what the kernels run on.
std::string instruction_set();

}  // namespace laconic
