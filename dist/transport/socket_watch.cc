#include "dist/transport/socket_watch.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace laconic::dist {
namespace {

// What the kernel holds but has not sent yet cannot be overtaken by something more urgent: it takes no more than this.
constexpr int kUnsentBytes = 128 << 10;

bool is_tcp_connection(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM) return false;
  sockaddr_storage peer{};
  size = sizeof peer;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  return peer.ss_family == AF_INET || peer.ss_family == AF_INET6;
}

std::vector<int> tcp_connections() {
  std::vector<int> found;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    char* end = nullptr;
    const long fd = std::strtol(entry->d_name, &end, 10);
    if (end != entry->d_name && *end == '\0' && is_tcp_connection(static_cast<int>(fd)))
      found.push_back(static_cast<int>(fd));
  }
  closedir(folder);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

SocketWatch::SocketWatch(std::optional<int> type_of_service)
    : type_of_service_(type_of_service),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      event_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = event_;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, event_, &event);
  known_ = tcp_connections();
}

SocketWatch::~SocketWatch() {
  close(epoll_);
  close(event_);
}

int SocketWatch::look() {
  for (int fd : tcp_connections()) {
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
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0) ++watched_;
  }
  return watched_;
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
