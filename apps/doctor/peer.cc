#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <iostream>
#include <memory>
#include <queue>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "apps/common/text.h"
#include "apps/doctor/findings.h"
#include "apps/launch/child_process.h"
#include "core/base/clock.h"
#include "core/base/error.h"

namespace laconic {
namespace {

constexpr double kPatience = 3;  // seconds without an answer
constexpr std::size_t kChunk = 64 << 10, kAtOnce = 64;  // bytes; connections that are tried

/// A socket that is closed at the end.
class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  /// False if nothing can be read, or written, for so long.
  bool ready(short events, double seconds) const {
    pollfd p{.fd = fd_, .events = events, .revents = 0};
    return ::poll(&p, 1, static_cast<int>(1e3 * seconds)) == 1;
  }
  bool read_all(void* to, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      if (!ready(POLLIN, kPatience)) return false;
      const ssize_t n = ::recv(fd_, static_cast<char*>(to) + done, bytes - done, 0);
      if (n <= 0) return false;
      done += static_cast<std::size_t>(n);
    }
    return true;
  }
  bool write_all(const void* from, std::size_t bytes) const {
    return ::send(fd_, from, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
  }

 private:
  const int fd_;
};

/// A connection to the process at ADDRESS:PORT:WORD; null if another, or none, answers there.
std::unique_ptr<Socket> connected(const std::string& peer) {
  const std::vector<std::string> parts = split(peer, ':');
  if (parts.size() != 3) return nullptr;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ::inet_pton(AF_INET, parts[0].c_str(), &address.sin_addr);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(parts[1].c_str())));
  const std::string& word = parts[2];
  auto socket = std::make_unique<Socket>(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int buffer = 512 << 10;  // what is left to go when the time is over
  ::setsockopt(socket->fd(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
  if (::connect(socket->fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      (errno != EINPROGRESS || !socket->ready(POLLOUT, kPatience)))
    return nullptr;
  char answer = 0;
  if (!socket->write_all(word.data(), word.size()) || !socket->read_all(&answer, 1) || answer != 'y') return nullptr;
  return socket;
}

/// Takes one connection: tells whether we are meant, then how many bytes came until the other has sent all.
void answer(int fd, const std::string& own) {
  const Socket socket(fd);
  std::string word(own.size(), ' ');
  const bool meant = socket.read_all(word.data(), word.size()) && word == own;
  if (!socket.write_all(meant ? "y" : "n", 1) || !meant) return;
  std::vector<char> chunk(4 * kChunk);
  std::uint64_t bytes = 0;
  while (socket.ready(POLLIN, 20)) {
    const ssize_t n = ::recv(fd, chunk.data(), chunk.size(), 0);
    if (n < 0) return;
    if (n == 0) {
      socket.write_all(&bytes, sizeof bytes);
      return;
    }
    bytes += static_cast<std::uint64_t>(n);
  }
}

/// "BYTES SECONDS", "stalled" if nothing is acknowledged any more, "no" if there is no connection.
std::string sent_to(const std::string& peer, double seconds) {
  const std::unique_ptr<Socket> socket = connected(peer);
  if (!socket) return "no";
  const std::vector<char> chunk(kChunk);
  std::uint64_t written = 0, acknowledged = 0, came = 0;
  const auto begin = Clock::now();
  auto moved = begin;
  bool sending = true;
  while (true) {
    if (sending && seconds_since(begin) >= seconds) {
      ::shutdown(socket->fd(), SHUT_WR);
      sending = false;
    }
    if (socket->ready(sending ? POLLOUT : POLLIN, 0.05)) {
      if (!sending) break;
      const ssize_t n = ::send(socket->fd(), chunk.data(), chunk.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN) return "no";
      if (n > 0) written += static_cast<std::uint64_t>(n);
    }
    int under_way = 0;
    ::ioctl(socket->fd(), SIOCOUTQ, &under_way);
    const std::uint64_t now = written - std::min<std::uint64_t>(written, static_cast<std::uint64_t>(under_way));
    if (now > acknowledged) acknowledged = now, moved = Clock::now();
    if (seconds_since(moved) > kPatience) return "stalled";
  }
  if (!socket->read_all(&came, sizeof came)) return "no";
  return fmt::format("{} {:.6f}", came, seconds_since(begin));
}

std::string interfaces_here() {
  std::string text;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return text;
  const Socket any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    // One without a cable counts, as Docker's without a container: Open MPI takes it too.
    if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP) || (i->ifa_flags & IFF_LOOPBACK))
      continue;
    char address[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, address, sizeof address);
    ifreq asked{};
    std::strncpy(asked.ifr_name, i->ifa_name, IFNAMSIZ - 1);
    const int mtu = ::ioctl(any.fd(), SIOCGIFMTU, &asked) == 0 ? asked.ifr_mtu : 0;
    const auto* const mask = reinterpret_cast<const sockaddr_in*>(i->ifa_netmask);
    text += fmt::format(" {} {} {} {}", i->ifa_name, address, mask ? std::popcount(mask->sin_addr.s_addr) : 32, mtu);
  }
  ::freeifaddrs(all);
  return text;
}

}  // namespace

void answer_peers() {
  std::random_device random;
  const std::string word = fmt::format("{:08x}{:08x}", random(), random());
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  own.sin_family = AF_INET;
  socklen_t size = sizeof own;
  require<Error>(listener >= 0 && ::bind(listener, reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0 &&
                     ::listen(listener, 256) == 0 &&
                     ::getsockname(listener, reinterpret_cast<sockaddr*>(&own), &size) == 0,
                 "doctor: no port can be opened (", std::strerror(errno), ").");
  std::thread([listener, word] {
    while (true) {
      const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) {  // no descriptor is free, as with very many hosts
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      try {
        std::thread(answer, fd, word).detach();
      } catch (const std::system_error&) {
        ::close(fd);
      }
    }
  }).detach();
  std::printf("%d %s%s\n", ntohs(own.sin_port), word.c_str(), interfaces_here().c_str());
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string what, peer, answer;
    words >> what;
    if (what == "reach") {
      std::queue<std::future<bool>> asked;
      const auto take = [&] { answer += asked.front().get() ? "yes " : "no ", asked.pop(); };
      while (words >> peer) {
        if (asked.size() == kAtOnce) take();
        asked.push(std::async(std::launch::async, [peer] { return connected(peer) != nullptr; }));
      }
      while (!asked.empty()) take();
    } else {
      double seconds = 0;
      words >> peer >> seconds;
      answer = sent_to(peer, seconds);
    }
    std::printf("%s\n", answer.c_str());
    std::fflush(stdout);
  }
  std::_Exit(0);  // threads may wait for peers
}

NetworkFacts measured_network(const std::vector<std::string>& hosts, const std::string& laconic) try {
  constexpr double kSeconds = 0.4;
  const std::size_t N = hosts.size();
  NetworkFacts facts;
  std::vector<std::unique_ptr<ChildProcess>> peers;
  std::vector<std::string> ends;  // ":PORT:WORD"
  for (const std::string& host : hosts)
    peers.push_back(std::make_unique<ChildProcess>(
        std::vector<std::string>{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "ServerAliveInterval=5",
                                 host, shell_word(laconic) + " doctor --peer"},
        ChildProcess::Environment{}));
  for (std::size_t i = 0; i < N; ++i) {
    std::istringstream said(peers[i]->receive());
    std::string port, word;
    require<Error>(static_cast<bool>(said >> port >> word), hosts[i], " does not tell of its network.");
    ends.push_back(":" + port + ":" + word);
    NetworkFacts::Host& host = facts.hosts.emplace_back(NetworkFacts::Host{hosts[i]});
    for (Interface one; said >> one.name >> one.address >> one.prefix >> one.mtu;) host.interfaces.push_back(one);
  }
  // Everybody tries all addresses of the others at once.
  for (std::size_t i = 0; i < N; ++i) {
    std::string line = "reach";
    for (std::size_t j = 0; j < N; ++j)
      for (const Interface& one : facts.hosts[j].interfaces)
        if (i != j)
          line += " " + one.address + ends[j], facts.passages.push_back({.from = i, .to = j, .address = one.address});
    peers[i]->send(line);
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < N; ++i) {
    std::istringstream said(peers[i]->receive());
    for (std::string word; said >> word && next < facts.passages.size() && facts.passages[next].from == i;)
      facts.passages[next++].reached = word == "yes";
  }
  // In round r each sends to the r-th after it: every host sends to one and receives from one.
  for (std::size_t round = 1; round < N; ++round)
    for (std::size_t k = 0, more = 1; more > 0; ++k) {
      more = 0;
      std::vector<Passage*> under_way(N, nullptr);
      for (std::size_t i = 0; i < N; ++i) {
        std::size_t before = k;
        for (Passage& p : facts.passages)
          if (p.from == i && p.to == (i + round) % N && p.reached && before-- == 0) under_way[i] = &p;
        if (!under_way[i]) continue;
        ++more;
        peers[i]->send(fmt::format("send {}{} {}", under_way[i]->address, ends[under_way[i]->to], kSeconds));
      }
      for (std::size_t i = 0; i < N; ++i) {
        if (!under_way[i]) continue;
        const std::string said = peers[i]->receive();
        double bytes = 0, seconds = 0;
        under_way[i]->stalled = said == "stalled";
        if (std::sscanf(said.c_str(), "%lf %lf", &bytes, &seconds) == 2 && seconds > 0)
          under_way[i]->bits_per_second = 8 * bytes / seconds;
      }
    }
  return facts;
} catch (const Error&) {
  return {.trouble = "a process there has ended (ssh HOST " + shell_word(laconic) + " doctor --peer)"};
}

}  // namespace laconic
