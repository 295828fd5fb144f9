#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "dist/engine/engine.h"
#include "dist/transport/linked.h"

namespace laconic::dist {

/// One rank, as its compute thread sees it: a worker, or, if the world has dedicated servers, one of these. Workers
/// come first, so that rank 0 is one.
struct Worker {
  int rank;  ///< 0 .. size-1 of a worker; size .. engine.size()-1 of a server
  int size;  ///< workers N
  Engine& engine;
  /// Goes after the body has ended, and after all ranks have been told if it ended by an exception: what may take long
  /// to come to its end (a file that is written) does not hold up the news.
  std::shared_ptr<void> outlives{};

  int servers() const { return engine.size() - size; }  ///< dedicated ones
  bool serves() const { return rank >= size; }
  /// Engine::run among the workers alone. All of them call it, and no server.
  void run(std::string name, std::function<Task<>(Communicator&)> body, Device device = kCpu,
           bool patiently = false) const;
};

/// A text of each worker, by rank. All of them call it, and no server.   what : names the operation
std::vector<std::string> texts_of_all(const Worker& worker, const std::string& what, const std::string& mine);

struct WorldOptions {
  int workers = 0;  ///< threads of this process; 0: as many as mpirun started (less the servers), else 1
  int servers = 0;  ///< further ranks, the last ones, that serve parameters and train nothing
  double timeout_seconds = 300;  ///< silence after which a rank counts as lost
  double connect_seconds = 20;   ///< least time until processes of MPI are connected: they take time to start
  double tell_seconds = 30;      ///< a rank that reads or writes files for so long says so on stderr, again and again
  std::optional<int> type_of_service{};  ///< type of service of IP packets between processes of MPI; none: left alone
  /// A network emulated between the threads. Their compute threads then run at nice 19 (kernel and data threads inherit
  /// it), the communication threads do not: with busy cores messages would else be late by the scheduler's tick.
  std::optional<LinkOptions> link{};
};

/// The facts that are known when all ranks of this process have ended.
struct WorldReport {
  LinkUse link{};  ///< what the emulated network tells
};

/// How many ranks mpirun (Open MPI) started, this process being one of them; 0 if it did not start this process.
int ranks_under_mpirun();

/// From now on this process is no rank, whatever started it.
void leave_world();

/// The end of a sentence about `ranks` processes that were started and do not meet: which MPI this build speaks, and
/// what to do.
std::string how_to_meet(int ranks);

/// Runs `body` once per rank: on `workers` threads of this process (rank 0 in the calling one, unless a link is
/// emulated), or, under mpirun, once here as the rank that mpirun says. Returns when every rank of this process has
/// ended; under mpirun when all ranks have, however long one takes, while it gives a sign of life. If one throws, all
/// ranks end quickly: here the first error is rethrown; under mpirun its sentence is printed once and the processes end
/// with its exit_code_of(). May be called again. Throws UsageError if `workers` contradicts mpirun, if the ranks that
/// it started do not meet (it is another MPI's), if mpirun is there but this build has no MPI, or for a link between
/// MPI processes or of one rank.
WorldReport run_workers(const WorldOptions& options, const std::function<void(Worker&)>& body);

/// Checks before step 0 that all ranks run the same thing. `mine` is lines of "key=value": model, options, sizes of the
/// data, the plan. Every rank compares all of them with rank 0's.
/// Throws CommError on all ranks, with the same sentence: the first rank and line that differ, and both values.
/// `patiently`: as of Engine::run, where a rank may have much to read before.
void check_fingerprint(Engine& engine, const std::string& mine, bool patiently = false);
/// The same among the workers of a world that may have servers.
void check_fingerprint(const Worker& worker, const std::string& mine, bool patiently = false);

}  // namespace laconic::dist
