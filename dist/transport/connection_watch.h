#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace laconic::dist {

/// Ends this process with a sentence and the exit code of LostRank, unless it is destroyed within `seconds`.
/// Until all ranks are connected MPI's own calls wait for a process that is stopped, and nothing else ends them. The
/// sentence names the ranks that are stopped on this machine, else those that were not heard of. One process says it.
class ConnectionWatch {
 public:
  explicit ConnectionWatch(double seconds);
  ~ConnectionWatch();
  ConnectionWatch(const ConnectionWatch&) = delete;
  ConnectionWatch& operator=(const ConnectionWatch&) = delete;

  /// This rank now waits to hear of these. From any thread.
  void waits_for(std::vector<int> ranks);

 private:
  void end(double seconds) const;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool connected_ = false;
  std::vector<int> missing_;
  std::thread thread_;
};

/// False if another process that the same daemon of mpirun started on this machine says this. A name in the system's
/// memory tells: it is gone when that process is.
bool first_here_to_say(const std::string& sentence);

/// The ranks of this training whose processes are stopped on this machine, by SIGSTOP or a debugger.
std::vector<int> stopped_ranks();

}  // namespace laconic::dist
