#include "dist/transport/socket_watch.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <set>
#include <string_view>

namespace laconic::dist {
namespace {

// What the kernel holds but has not sent yet cannot be overtaken by something more urgent: it takes no more than this.
constexpr int kUnsentBytes = 128 << 10;

/// The other end of a TCP connection; nothing for any other descriptor.
std::optional<SocketAddress> peer_of(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) return {};
  sockaddr_storage peer{};
  size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return {};
  if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6) return {};
  const bool four = peer.ss_family == AF_INET;
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(peer.ss_family, four ? static_cast<const void*>(&v4.sin_addr) : &v6.sin6_addr, text, sizeof text);
  return SocketAddress{text, ntohs(four ? v4.sin_port : v6.sin6_port)};
}

struct Connection {
  int fd;
  SocketAddress peer;
};

std::vector<Connection> tcp_connections() {
  std::vector<Connection> found;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    char* end = nullptr;
    const long fd = std::strtol(entry->d_name, &end, 10);
    if (end == entry->d_name || *end != '\0') continue;
    if (auto peer = peer_of(static_cast<int>(fd))) found.push_back({static_cast<int>(fd), std::move(*peer)});
  }
  closedir(folder);
  return found;
}

}  // namespace

std::vector<SocketAddress> process_manager_addresses() {
  std::vector<SocketAddress> found;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::size_t scheme = text.find(";tcp"), slashes = text.find("://", scheme), colon = text.rfind(':');
    if (!text.starts_with("PMIX_SERVER_URI") || scheme == text.npos || slashes == text.npos || colon <= slashes + 3)
      continue;
    std::string_view ip = text.substr(slashes + 3, colon - slashes - 3);
    if (ip.starts_with('[') && ip.ends_with(']')) ip = ip.substr(1, ip.size() - 2);
    const std::string_view digits = text.substr(colon + 1);
    SocketAddress address{.ip = std::string(ip)};
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), address.port);
    const bool known = std::find(found.begin(), found.end(), address) != found.end();
    if (error == std::errc() && end == digits.end() && !known) found.push_back(std::move(address));
  }
  return found;
}

SocketWatch::SocketWatch(std::optional<int> type_of_service, const std::vector<SocketAddress>& others)
    : type_of_service_(type_of_service),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = event_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event);
  for (const Connection& c : tcp_connections())
    if (others.empty() || std::find(others.begin(), others.end(), c.peer) != others.end()) known_.push_back(c.fd);
  std::sort(known_.begin(), known_.end());
}

SocketWatch::~SocketWatch() {
  close(epoll_);
  close(event_);
}

int SocketWatch::look() {
  for (const auto& [fd, peer] : tcp_connections()) {
    const auto place = std::lower_bound(known_.begin(), known_.end(), fd);
    if (place != known_.end() && *place == fd) continue;
    known_.insert(place, fd);
    setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof kUnsentBytes);
    if (type_of_service_) {  // of one family; the other refuses
      setsockopt(fd, IPPROTO_IP, IP_TOS, &*type_of_service_, sizeof *type_of_service_);
      setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &*type_of_service_, sizeof *type_of_service_);
    }
    epoll_event event{};
    event.events = EPOLLIN | EPOLLOUT | EPOLLET;
    event.data.fd = fd;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) watched_.push_back(fd);
  }
  return static_cast<int>(watched_.size());
}

SocketWatch::Silent SocketWatch::unacknowledged(double seconds) const {
  std::set<std::string> machines, silent;
  for (const int fd : watched_) {
    tcp_info info{};
    socklen_t size = sizeof info;
    const auto peer = peer_of(fd);
    if (!peer || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) continue;
    machines.insert(peer->ip);
    if (info.tcpi_unacked > 0 && info.tcpi_retransmits > 0 && info.tcpi_last_ack_recv > 1e3 * seconds)
      silent.insert(peer->ip);
  }
  return {{silent.begin(), silent.end()}, machines.size() > 1 && silent == machines};
}

void SocketWatch::sleep(double at_most_seconds) {
  epoll_event events[16];
  const double ms = std::ceil(1e3 * std::min(at_most_seconds, 1e6));
  epoll_wait(epoll_, events, 16, static_cast<int>(ms));
}

void SocketWatch::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(event_, &one, sizeof one);
}

}  // namespace laconic::dist
