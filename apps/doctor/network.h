#pragma once
#include <string>
#include <vector>

#include "apps/doctor/findings.h"

namespace laconic {

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
/// long messages that do not pass, a slow cable among fast ones, and which of several networks is the faster.
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

}  // namespace laconic
