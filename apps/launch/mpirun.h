#pragma once
#include <functional>
#include <optional>
#include <set>
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

/// Reads what mpirun and the ranks write to stderr, line by line. mpirun puts its own notes between two lines of
/// dashes. Notes about how a rank ended are left out. One sentence of ours names a rank that a signal ended; a rank
/// that failed has said so itself, and what others then say is left out. Every other line passes as it is. Knows Open
/// MPI 4, 5 and 6 (prterun).
class MpirunNotes {
 public:
  explicit MpirunNotes(bool several_hosts) : several_hosts_(several_hosts) {}

  /// Returns the text to print for the next line (given without its end): nothing, or whole lines.
  std::string take(const std::string& line);
  /// Returns the text to print when mpirun has ended with this exit code: the lines that were held back, and one
  /// sentence if a rank, or mpirun itself, failed without any.
  std::string end(int exit_code);

  /// Ranks that this signal ends are not told: it was asked for.
  void expect(int signal) { expected_.insert(signal); }

  /// A rank has said what is wrong ("laconic: error:"), or was ended by a signal: all others have to end.
  bool verdict() const { return said_ || lost_; }
  bool lost() const { return lost_; }  ///< a signal ended a rank, and it was not expected

 private:
  std::string close(const std::string& end);
  std::string lose(const std::string& rank, int signal);

  bool several_hosts_, said_ = false, lost_ = false;
  bool silent_ = true;    // not a line has come
  bool repeats_ = false;  // what comes is another rank's error, after the first
  std::set<int> expected_;
  bool as_asked_ = false;    // a signal ended a rank, and it was expected
  bool failed_ = false;      // a rank ended with an exit code other than 0
  std::string failed_rank_;  // which, if mpirun came to telling that
  std::string dashes_;  // a line of dashes: what follows tells what it begins, or that it ended something
  std::string note_;    // one of mpirun's notes about a rank, up to now; with the dashes
};

}  // namespace laconic
