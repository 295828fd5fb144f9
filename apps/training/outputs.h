#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/look/report/report.h"
#include "apps/training/options.h"
#include "core/base/atomic_file.h"
#include "dist/trainer/report.h"

namespace laconic {

/// Keeps other runs from writing to the same outputs while it lives, by locks that the kernel frees with the process
/// (flock). On a file system without locks it keeps nobody out. Empty paths, and what is no file of a disk (a pipe,
/// /dev/stdout), are left alone. `option` names the output in errors. All throw UsageError if another run holds it.
class OutputLocks {
 public:
  OutputLocks() = default;
  ~OutputLocks();
  OutputLocks(const OutputLocks&) = delete;
  OutputLocks& operator=(const OutputLocks&) = delete;

  void take_file(const std::string& path, const char* option);    ///< one that is written in place; makes it
  void take_folder(const std::string& path, const char* option);  ///< makes it
  /// A file that is replaced as a whole: the lock is on PATH.lock, which goes with this object.
  void take_name(const std::string& path, const char* option);

 private:
  bool take(const std::string& path, int flags);
  struct Held {
    int fd;
    std::pair<unsigned long, unsigned long> file;  // device and inode
    std::string removed;                           // at the end; "": nothing
  };
  std::vector<Held> held_;
};

/// What a run prints and writes besides weights and checkpoints: by observers while it trains, and at its end. While
/// this lives no other run writes to the same outputs. In a process that does not speak nothing is written.
class Outputs {
 public:
  /// The options outlive this. throws UsageError, DataError: something cannot be written, or another run writes it
  Outputs(const TrainOptions& options, bool speaks);

  Observers& observers() { return observers_; }
  /// Prints what has come of the run, and where its outputs are.
  void finish(const RunSummary& summary);

 private:
  const TrainOptions& o_;
  const bool writes_;
  OutputLocks locks_;
  Observers observers_;
  std::optional<ScratchFolder> scratch_;  // a page is made of a log
  std::string log_;
  std::optional<LivePage> live_;
};

}  // namespace laconic
