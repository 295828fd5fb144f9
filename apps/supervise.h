#pragma once
#include <string>
#include <utility>
#include <vector>

namespace laconic {

/// How mpirun is run.
struct MpirunStart {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> environment;  ///< set beside the caller's
  bool here;                                                     ///< all ranks on this machine
};

/// Runs mpirun to its end, in a process group of its own, which no signal of the terminal reaches. Its notes are told
/// as MpirunNotes does. The first Ctrl-C, SIGTERM or SIGHUP asks the ranks for an orderly end (SIGUSR1); the next one
/// ends mpirun. mpirun is also ended 10 s after a verdict of a rank, if it still runs: it waits for ever for a machine
/// that is gone. Processes that outlive it are killed. Where all ranks are here, Open MPI writes into folders of this
/// run, which go at its end even if this process is killed. Returns the first exit code of a rank that is not 0, else
/// 0; 3 if a signal ended a rank, or if mpirun had to be ended after a verdict; 128 and the number of the signal if one
/// that came here has cut the run short. Throws Error if mpirun cannot be started, DataError if the folders cannot be
/// made.
int supervise(const MpirunStart& start);

}  // namespace laconic
