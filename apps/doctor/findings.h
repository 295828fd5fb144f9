#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace laconic {

/// Something about a machine that training depends on.
struct Finding {
  enum class Verdict {
    good,
    missing,  ///< something cannot be done here; training can
    slow,     ///< training is slower than it need be
    broken    ///< training will fail
  };
  Verdict verdict;
  std::string topic;   ///< "memory"
  std::string found;   ///< one thought, without a full stop
  std::string mend{};  ///< what to do; empty where nothing is wrong
};
const char* name_of(Finding::Verdict verdict);  ///< "ok", "missing", "slow", "broken"

/// How a command ended.
struct CommandResult {
  int code = 0;              ///< its exit code; kNotStarted, or kEndless: it was killed, for it did not end
  std::string out{}, why{};  ///< what it printed; the sentence that it failed with
  static constexpr int kNotStarted = -1, kEndless = -2;
};

struct NetworkFacts;

/// Where findings come from. Tests give others than a machine's.
struct Surroundings {
  std::string root{};                                        ///< stands in front of /proc, /sys and /dev
  std::function<std::string(const char* name)> environment;  ///< "": not set
  std::function<CommandResult(const std::vector<std::string>& command)> run;
  std::function<std::uint64_t(const std::string& folder)> free_bytes;  ///< 0: there is no such folder
  std::function<NetworkFacts(const std::vector<std::string>& hosts)> network;
  bool root_user = false;

  // This build.
  std::string laconic;  ///< path of the program `laconic`; empty: it is not there
  std::string version;  ///< what `laconic --version` prints
  bool optimised = true, sanitized = false;
  std::vector<std::string> without{};  ///< built_without()
  std::string onednn;                  ///< its version
  bool onednn_openmp = true;
  bool cuda_built = false;
  std::vector<std::string> gpus{};   ///< names of CUDA devices that can be used
  std::string why_no_gpu{}, nccl{};  ///< where there are none; NCCL's version, empty: it is not there
  std::string mpi{};                 ///< version of the Open MPI that is linked
  std::vector<std::string> mpiruns{};  ///< mpirun_candidates()
  bool single_copy = true;             ///< processes may read one another's memory
};

/// Looks at a machine. With hosts also at the way to each of them, and whether laconic lies there too.
///   under_mpirun  this is one of several ranks: mpirun is not tried
std::vector<Finding> findings(const Surroundings& here, const std::vector<std::string>& hosts, bool under_mpirun);

}  // namespace laconic
