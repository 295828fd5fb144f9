#pragma once
#include <optional>
#include <string>
#include <vector>

namespace laconic {

/// A launcher that has started this process beside others, which it will not meet.
struct ForeignLauncher {
  int processes;    ///< at least so many
  std::string why;  ///< the variable that tells it: "PMI_SIZE=2"
  bool first;       ///< whether this process is the first of those who know; it says what is wrong
};

/// Reads it from an environment ("NAME=value"); nothing where a process is the only one, or a rank of Open MPI's
/// mpirun.
std::optional<ForeignLauncher> foreign_launcher(const std::vector<std::string>& environment);

/// For a program that trains. Throws UsageError, or ends this process with its exit code, where a foreign launcher has
/// started several.
void refuse_foreign_launcher();

}  // namespace laconic
