#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace laconic {

/// A machine, and how many ranks it takes; 0: its share.
struct Host {
  std::string name;
  int slots = 0;
  bool operator==(const Host&) const = default;
};

/// `laconic launch -n N [--hosts a,b | --hostfile FILE] APP options...`: N processes of APP that work together over
/// MPI.
struct LaunchOptions {
  int ranks = 0;
  std::vector<Host> hosts;                               ///< empty: this machine
  std::vector<std::pair<std::string, std::string>> mca;  ///< settings for Open MPI, --mca NAME VALUE
  bool dry_run = false;                                  ///< print the command line, and leave
  int restarts = 0;     ///< how often it begins again from its last checkpoint after a rank was lost
  int min_workers = 0;  ///< it goes on with as few processes if hosts are gone; 0: with all or not at all
  std::string app;
  std::vector<std::string> app_arguments;
};

/// Reads what follows "launch", and the file of --hostfile. Everything from APP on is the app's. Throws UsageError, or
/// DataError if that file cannot be read or is none.
LaunchOptions parse_launch(const std::vector<std::string>& arguments);

/// Ranks lie on hosts in their order, 0, 1, … on the first: neighbours in a ring, and the groups of a hierarchy, are on
/// one machine where they can be. Where no host says how many it takes, all take as many, the first ones one more;
/// where one does, each is filled up before the next one, and one that does not say takes one.
/// throws UsageError if the ranks are more than that
std::vector<Host> placed(std::vector<Host> hosts, int ranks);

/// The command that starts the run, its words and what to set and unset in its environment.
struct LaunchCommand {
  std::vector<std::string> words;  ///< words[0] is mpirun, which launch() chooses
  std::map<std::string, std::string> set;
  std::vector<std::string> unset;
  bool here = true;  ///< all ranks on this machine
};
/// What suits the machine: as many kernel threads per rank as there are cores for it; no binding to cores; ranks that
/// share cores give way while they wait; root is let in. Without hosts, from --hosts or a scheduler, ranks talk through
/// shared memory alone and open no port. The machines of a Slurm job share the ranks as they share its tasks. What
/// is_for_others of the caller's environment is dropped.
///   cores        of one host
///   columns      of the terminal that mpirun writes to, 0 if it is none: mpirun gives every rank a terminal of its
///                own, so that the ranks cannot tell (LACONIC_COLUMNS)
///   environment  the caller's, as "NAME=value"
LaunchCommand launch_command(const LaunchOptions& options, const std::string& app_path, int cores, int columns,
                             bool root, const std::vector<std::string>& environment);

/// Returns the options of the next run: on the hosts that answer, with --resume if there is a checkpoint. Where there
/// is none, the run begins anew, with --overwrite: a first save that was cut off may have left weights.
///   answers  whether a host can be reached
///   throws LostRank if fewer than min_workers processes have a host
LaunchOptions begun_again(const LaunchOptions& options, const std::function<bool(const std::string& host)>& answers);

/// How a run under mpirun has ended.
struct Ending {
  int code = 0;
  bool interrupted = false;  ///< by a signal that came here
  std::string why{};         ///< the first sentence about an error; empty: there was none
  /// A rank was lost, or ended without a word. An error that it could name would come again.
  bool failed() const { return !interrupted && code > 2; }
};

/// Runs mpirun to its end, in a process group of its own, which no signal of the terminal reaches. Its notes are told
/// as MpirunNotes does. The first Ctrl-C, SIGTERM or SIGHUP asks the ranks for an orderly end (SIGUSR1); the next one,
/// or the first if there is no rank yet, ends mpirun. mpirun is also ended 10 s after a verdict of a rank, if it still
/// runs: it waits for ever for a machine that is gone. Processes that outlive it are killed. Where all ranks are here,
/// Open MPI writes into folders of this run, which go at its end even if this process is killed. The code is the first
/// exit code of a rank that is not 0, else 0; 3 if a signal ended a rank, or if mpirun had to be ended after a verdict;
/// 128 and the number of the signal if one that came here has cut the run short. Throws Error if mpirun cannot be
/// started, DataError if the folders cannot be made.
Ending supervise(const LaunchCommand& command);

bool is_program(const std::string& path);
/// Where execvp would find `name`, or "".
std::string in_path(const std::string& name);

/// The path of APP: a path, or the name of a program beside this one or in PATH. Throws UsageError in the name of
/// `tool`; it says how to build a program of laconic's own that was not built yet.
std::string find_app(const std::string& app, const std::string& tool);

/// Finds APP (a path, or the name of a program next to this one) and runs it under mpirun, as supervise() does; again,
/// up to `restarts` times, where that has failed. Returns the code of the last run. Throws UsageError (also where a
/// restart would go on from a checkpoint of before, or mpirun is another MPI's), or Error if mpirun is missing or
/// cannot be started.
int launch(const std::vector<std::string>& arguments);

}  // namespace laconic
