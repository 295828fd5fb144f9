#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/launch/child_process.h"

namespace laconic {

/// Names the programs that may start the ranks of this build: "mpirun" where PATH has one, then those that lie beside
/// the MPI that is loaded (Debian's mpirun.openmpi first).
std::vector<std::string> mpirun_candidates();

/// The one of them that was chosen.
struct Mpirun {
  std::string path;    ///< "mpirun": the one in PATH; empty: there is none
  std::string name{};  ///< "Open MPI 4.1.4"
  std::string why{};   ///< it is none that this build can take: what was found, and what is needed
};

/// Chooses by what each candidate answers to --version: the first of the library's own version, else the first Open MPI
/// of its major version. A build without MPI takes the first that there is.
///   library  version of the Open MPI that this build is linked with, as "4.1.4"; empty: none
///   run      runs `PATH --version`
Mpirun choose_mpirun(const std::vector<std::string>& candidates, const std::string& library,
                     const std::function<CommandResult(const std::vector<std::string>& command)>& run);
/// Chooses among those of this machine.
Mpirun own_mpirun();

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
