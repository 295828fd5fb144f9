#include "apps/doctor/findings.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "apps/common/text.h"

namespace laconic {
namespace {

using Verdict = Finding::Verdict;
using Indices = std::vector<std::size_t>;

std::string rate_text(double bits_per_second) {
  return bits_per_second >= 1e9 ? fmt::format("{:.3g} Gbit/s", bits_per_second / 1e9)
                                : fmt::format("{:.3g} Mbit/s", bits_per_second / 1e6);
}

/// Hosts that have an address in one network, and what passes between them there.
struct Network {
  std::string name;                               // "10.0.0.0/24"
  std::map<std::size_t, Interface> interfaces{};  // by host; of several in one network the first
  std::vector<const Passage*> passages{};

  bool joins_any() const { return std::ranges::any_of(passages, &Passage::reached); }
  bool joins(std::size_t hosts) const {
    return interfaces.size() == hosts && std::ranges::all_of(passages, [](const Passage* p) { return p->reached; }) &&
           std::ranges::none_of(passages, &Passage::stalled);
  }
  /// "eth0", or "eth0/ens3" where hosts call it so.
  std::string called() const {
    std::set<std::string> names;
    for (const auto& [host, one] : interfaces) names.insert(one.name);
    return join({names.begin(), names.end()}, "/");
  }
  double slowest() const {
    double least = 0;
    for (const Passage* p : passages)
      if (p->bits_per_second > 0) least = least > 0 ? std::min(least, p->bits_per_second) : p->bits_per_second;
    return least;
  }
};

/// Makes the findings, one topic after the other.
class Judgement {
 public:
  explicit Judgement(const NetworkFacts& facts) : facts_(facts), N_(facts.hosts.size()) {
    std::map<std::string, Network> by_name;
    for (std::size_t h = 0; h < N_; ++h)
      for (const Interface& one : facts_.hosts[h].interfaces) {
        Network& network = by_name[one.network()];
        network.name = one.network();
        network.interfaces.emplace(h, one);
      }
    for (auto& [name, network] : by_name) {
      if (network.interfaces.size() < 2) continue;
      for (const Passage& p : facts_.passages) {
        const auto to = network.interfaces.find(p.to);
        if (network.interfaces.contains(p.from) && to != network.interfaces.end() && to->second.address == p.address)
          network.passages.push_back(&p);
      }
      networks_.push_back(std::move(network));
    }
  }

  NetworkFindings take() {
    if (!facts_.trouble.empty()) {
      add(Verdict::missing, "not measured between the hosts: " + facts_.trouble, "run that command by hand");
      return std::move(found_);
    }
    separated();
    one_that_is_not_one();
    for (const Network& network : networks_) {
      if (!network.joins_any()) continue;
      long_messages(network);
      rates(network);
    }
    routed();
    several();
    return std::move(found_);
  }

 private:
  void add(Verdict verdict, const std::string& found, const std::string& mend = "") {
    found_.all.push_back({verdict, "network", found, mend});
  }
  const std::string& name(std::size_t host) const { return facts_.hosts[host].name; }
  std::string names(const Network& network) const {
    std::string all;  // at least two
    for (auto left = network.interfaces.size(); const auto& [host, one] : network.interfaces)
      all += name(host) + (--left > 1 ? ", " : left == 1 ? " and " : "");
    return all;
  }

  /// Pairs where no address is reached.
  void separated() {
    for (std::size_t i = 0; i < N_; ++i)
      for (std::size_t j = 0; j < N_; ++j) {
        if (i == j) continue;
        std::vector<std::string> tried;
        bool reached = false;
        for (const Passage& p : facts_.passages)
          if (p.from == i && p.to == j) tried.push_back(p.address), reached |= p.reached;
        if (reached) continue;
        add(Verdict::broken,
            tried.empty() ? fmt::format("{} has no IPv4 address", name(j))
                          : fmt::format("{} opens no connection to {} ({})", name(i), name(j), join(tried, ", ")),
            "let them in: a firewall, or a route that is missing (docs/clusters.md, open ports)");
      }
  }

  /// The network that all hosts reach each other in, the fastest; null: there is none.
  const Network* best() const {
    const Network* best = nullptr;
    for (const Network& network : networks_)
      if (network.joins(N_) && (!best || network.slowest() > best->slowest())) best = &network;
    return best;
  }
  /// Names it for Open MPI, which takes an interface's name or a network.
  std::string include(const Network& network) const {
    const std::string called = network.called();
    const bool unique =
        called.find('/') == std::string::npos && std::ranges::none_of(networks_, [&](const Network& other) {
          return other.name != network.name &&
                 std::ranges::any_of(other.interfaces, [&](const auto& i) { return i.second.name == called; });
        });
    return unique ? called : network.name;
  }
  std::vector<std::string> mca(const Network& network) const {
    const std::string which = include(network);
    return {"--mca", "btl_tcp_if_include", which, "--mca", "oob_tcp_if_include", which};
  }

  /// Docker gives its bridge the same address on every machine. Where routers join the hosts there is no right network
  /// to name, and the wrong ones are left out.
  void one_that_is_not_one() {
    const Network* const right = best();
    const bool all_reach = found_.all.empty();  // separated() has found nothing
    std::string wrong = "127.0.0.0/8";
    for (const Network& network : networks_)
      if (!network.joins_any()) wrong += "," + network.name;
    for (const Network& network : networks_) {
      if (network.joins_any()) continue;
      if (right) found_.mca = mca(*right);
      if (!right && all_reach)
        found_.mca = {"--mca", "btl_tcp_if_exclude", wrong, "--mca", "oob_tcp_if_exclude", wrong};
      add(Verdict::broken,
          fmt::format("{} is {} on {}, who do not reach each other there: Open MPI may take it", network.called(),
                      network.name, names(network)),
          !found_.mca.empty() ? "laconic launch " + join(found_.mca, " ")
                              : "bring the hosts into one network (docs/clusters.md)");
    }
  }

  void long_messages(const Network& network) {
    std::vector<std::string> pairs;
    int mtu = 0;
    bool differ = false;
    for (const auto& [host, one] : network.interfaces)
      differ |= mtu > 0 && one.mtu != mtu, mtu = std::max(mtu, one.mtu);
    for (const Passage* p : network.passages)
      if (p->stalled) pairs.push_back(name(p->from) + " to " + name(p->to));
    if (pairs.empty()) return;
    const std::string more = pairs.size() > 4 ? fmt::format(" and {} more", pairs.size() - 4) : "";
    pairs.resize(std::min<std::size_t>(pairs.size(), 4));
    const int lower = mtu > 1500 ? 1500 : 1400;
    add(Verdict::broken,
        fmt::format("small messages pass by {} and long ones do not ({}{}): the MTU, {}{}, is more than the way takes",
                    network.called(), join(pairs, ", "), more, differ ? "up to " : "", mtu),
        fmt::format("ip link set dev {} mtu {} on all of them, or let every switch between take {}", network.called(),
                    lower, mtu));
  }

  void rates(const Network& network) {
    std::map<std::pair<std::size_t, std::size_t>, double> rate;
    for (const Passage* p : network.passages)
      if (p->bits_per_second > 0) rate[{p->from, p->to}] = p->bits_per_second;
    constexpr std::size_t kMostLines = 28;  // of eight hosts
    std::vector<double> all;
    for (const auto& [pair, bits] : rate) all.push_back(bits);
    if (all.size() > 2 * kMostLines)
      return add(Verdict::good,
                 fmt::format("{} hosts: {} to {} a pair by {}", network.interfaces.size(),
                             rate_text(std::ranges::min(all)), rate_text(std::ranges::max(all)), network.called()));
    for (const auto& [pair, bits] : rate) {
      const auto [i, j] = pair;
      const auto back = rate.find({j, i});
      if (back != rate.end() && j < i) continue;
      add(Verdict::good, fmt::format("{} to {} {}{}, by {}", name(i), name(j), rate_text(bits),
                                     back == rate.end() ? "" : ", back " + rate_text(back->second), network.called()));
    }
  }

  /// Pairs that meet in no network, but by way of others.
  void routed() {
    for (const Passage& p : facts_.passages) {
      const auto meets = [&](const Network& network) {
        return std::ranges::any_of(network.passages,
                                   [&](const Passage* q) { return q->from == p.from && q->to == p.to && q->reached; });
      };
      if (p.bits_per_second > 0 && std::ranges::none_of(networks_, meets))
        add(Verdict::good, fmt::format("{} to {} {}, routed to {}", name(p.from), name(p.to),
                                       rate_text(p.bits_per_second), p.address));
    }
  }

  /// Open MPI shares messages out over all networks that it finds, or takes the first.
  void several() {
    const Network* const right = best();
    for (const Network& network : networks_)
      if (right && &network != right && network.joins(N_) && 2 * network.slowest() < right->slowest())
        add(Verdict::slow,
            fmt::format("the hosts meet by {} and by {}, which is faster: Open MPI takes both", network.called(),
                        right->called()),
            "laconic launch " + join(mca(*right), " "));
  }

  const NetworkFacts& facts_;
  const std::size_t N_;
  std::vector<Network> networks_;
  NetworkFindings found_;
};

}  // namespace

std::string Interface::network() const {
  in_addr bits{};
  ::inet_pton(AF_INET, address.c_str(), &bits);
  bits.s_addr &= htonl(prefix <= 0 ? 0 : ~0U << (32 - std::min(prefix, 32)));
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &bits, text, sizeof text);
  return fmt::format("{}/{}", text, prefix);
}

NetworkFindings judged(const NetworkFacts& facts) { return Judgement(facts).take(); }

}  // namespace laconic
