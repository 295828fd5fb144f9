#pragma once
#include <optional>
#include <vector>

namespace laconic::dist {

/// Sleeps until something happens on the TCP connections that a library (Open MPI) opened for itself, so that waiting
/// for a message needs no polling. The library goes on reading and writing them: only edges are watched here, in an
/// epoll set of our own, so an edge that the library has dealt with already costs one wake-up for nothing and none is
/// lost. The connections are also told to keep little in the kernel that is not sent yet, so that what is handed over
/// last does not wait long. Used by one thread, but for wake().
class SocketWatch {
 public:
  /// Connections open now are somebody else's (mpirun's): they are never watched. With a type of service every packet
  /// of those that are watched carries it in its IP header, so that a network can act on it.
  explicit SocketWatch(std::optional<int> type_of_service = {});
  ~SocketWatch();
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  /// Looks for connections opened since the last look; how many are watched now.
  int look();
  /// Sleeps until an edge or a wake(), at most so long. The kernel counts in milliseconds: rounded up.
  void sleep(double at_most_seconds);
  void wake();  ///< ends the next sleep. From any thread.

 private:
  const std::optional<int> type_of_service_;
  int epoll_ = -1, event_ = -1;
  std::vector<int> known_;  // sorted: descriptors seen, watched or not
  int watched_ = 0;
};

}  // namespace laconic::dist
