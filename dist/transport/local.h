#pragma once
#include <deque>
#include <unordered_map>
#include <vector>

#include "core/stream.h"
#include "dist/transport/thread_hub.h"

namespace laconic::dist {

/// What a rank of a local hub keeps there.
struct LocalRank {
  struct Completion {
    Request* request;
    std::size_t bytes;
    std::exception_ptr error;
    Event copied;  // the copy, on its device
  };
  struct Posted {
    Request* request;
    Event ready;  // what its device had to do before
  };
  struct Channel {  // one (sender, receiver, slot): at most one of the two holds anything
    std::deque<Posted> sends, receives;
  };
  std::unordered_map<std::uint64_t, Channel> incoming{};
  std::vector<Completion> completed{};  // what others have completed, for this rank's thread to take
};

/// Workers that are threads of one process: for teaching, tests, and workers that share one device.
/// A receive and a send of the same (sender, receiver, slot) are matched under one lock and copied outside of it, by
/// the thread that came second, straight from the sender's memory: nothing is buffered. Memory of devices is copied in
/// the order of both threads' work there, and nobody waits.
using LocalHub = ThreadHub<LocalRank>;

/// Rank `rank` of a hub.
class LocalTransport final : public ThreadTransport<LocalHub> {
 public:
  using ThreadTransport::ThreadTransport;
  bool reaches(Device) const override { return true; }

 private:
  void start(Request& request) override;
  void cancel_started(Request& request) override;
  int poll() override;
  void sleep(double at_most_seconds) override;

  std::vector<LocalRank::Completion> taken_;
};

}  // namespace laconic::dist
