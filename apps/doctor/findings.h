#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/launch/child_process.h"

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

/// An IPv4 address of a machine, on an interface that is up. Loopback is none.
struct Interface {
  std::string name, address;    ///< "eth0", "10.0.0.2"
  int prefix = 24;              ///< bits of the network's part
  int mtu = 1500;               ///< bytes
  std::string network() const;  ///< "10.0.0.0/24"
};

/// From one host to an address of another.
struct Passage {
  std::size_t from, to;        ///< places in NetworkFacts::hosts
  std::string address{};       ///< of `to`
  bool reached = false;        ///< `to` itself answered a small message that was sent there
  bool stalled = false;        ///< nothing of a long message was acknowledged for some seconds
  double bits_per_second = 0;  ///< of a long message; 0: not measured
};

/// The network between hosts, as it was measured.
struct NetworkFacts {
  struct Host {
    std::string name;
    std::vector<Interface> interfaces{};
  };
  std::vector<Host> hosts{};
  std::vector<Passage> passages{};  ///< of each ordered pair, to each address
  std::string trouble{};            ///< why there are none; empty: there are
};

struct NetworkFindings {
  std::vector<Finding> all{};
  /// Settings of Open MPI, NAME VALUE, with which it takes the network that all hosts are in. Empty: it needs none.
  std::vector<std::string> mca{};
};
/// Judges what is between at least two hosts: rate and interface of each pair, networks of one name that are not one,
/// long messages that do not pass, and which of several networks is the faster.
NetworkFindings judged(const NetworkFacts& facts);

/// Measures what is between hosts, by a process of laconic on each that ssh starts (answer_peers). Each pair sends to
/// each other for 0.4 s, as many pairs at a time as are disjoint.
///   laconic  path of the program, on all hosts
NetworkFacts measured_network(const std::vector<std::string>& hosts, const std::string& laconic);

/// Runs on each host meanwhile, as `laconic doctor --peer`: prints a port, a word that nobody else knows, and this
/// machine's interfaces, and then answers each line of its input with one, until that ends.
///   reach ADDRESS:PORT:WORD ...         whether that process answers there: for each "yes" or "no"
///   send ADDRESS:PORT:WORD SECONDS      BYTES SECONDS of a long message, or "stalled"
[[noreturn]] void answer_peers();

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
