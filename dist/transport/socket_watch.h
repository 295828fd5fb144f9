#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace laconic::dist {

/// One end of a TCP connection.
struct SocketAddress {
  std::string ip{};  ///< text of inet_ntop
  std::uint16_t port = 0;
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

/// Where the process manager that started this process listens to it: from PMIX_SERVER_URI and its numbered variants,
/// "name.rank;tcp4://127.0.0.1:40521". Empty if there is none, or none over TCP.
std::vector<SocketAddress> process_manager_addresses();

/// Sleeps until something happens on the TCP connections that a library (Open MPI) opened for itself, so that waiting
/// for a message needs no polling. The library goes on reading and writing them: only edges are watched here, in an
/// epoll set of our own, so an edge that the library has dealt with already costs one wake-up for nothing and none is
/// lost. The connections are also told to keep little in the kernel that is not sent yet, so that what is handed over
/// last does not wait long. Used by one thread, but for wake().
class SocketWatch {
 public:
  /// Connections to these addresses are somebody else's (mpirun's) and never watched; without any, all that are open
  /// now. (Those open now may be between ranks: one that is through MPI_Init earlier may already talk to this one.)
  ///   type_of_service   every packet of a watched connection carries it in its IP header, so that a network can act on
  ///                     it
  explicit SocketWatch(std::optional<int> type_of_service = {}, const std::vector<SocketAddress>& others = {});
  ~SocketWatch();
  SocketWatch(const SocketWatch&) = delete;
  SocketWatch& operator=(const SocketWatch&) = delete;

  /// Looks for connections opened since the last look; how many are watched now.
  int look();
  /// Sleeps until an edge or a wake(), at most so long. The kernel counts in milliseconds: rounded up.
  void sleep(double at_most_seconds);
  /// Other ends, as inet_ntop writes them.
  struct Silent {
    std::vector<std::string> machines{};  ///< machines that have not acknowledged what was sent to them
    bool all = false;                     ///< there are several, and none has
  };
  /// A process that is stopped still acknowledges, by its kernel.
  Silent unacknowledged(double seconds) const;
  void wake();  ///< ends the next sleep. From any thread.

 private:
  const std::optional<int> type_of_service_;
  int epoll_ = -1, event_ = -1;
  std::vector<int> known_;    // sorted: descriptors seen, watched or not
  std::vector<int> watched_;  // the known ones that are watched
};

}  // namespace laconic::dist
