#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "core/stream.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

class Transport;

/// Carries messages that lie in a device's memory over a network that moves host memory only. A send is copied down
/// by the device in the order of its work, and posted when it is there; a receive is copied up when it has come, and
/// is complete then: the copy comes before what is asked of the device next. Nothing here waits.
/// A request that only waits for its device stands in the same row.
/// Used by the transport that holds it, on its thread.
class Staging {
 public:
  explicit Staging(Transport& transport) : transport_(transport) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Whether this request must pass here: it lies on a device that the transport does not reach, is a send from host
  /// memory that must not overtake one that does, or only waits for a device.
  bool takes(const Request& request) const;
  void post(Request& request, int priority);
  /// Afterwards its memory is not touched any more, except by what the device was asked for already. False if it is not
  /// here.
  bool cancel(Request& request);

  /// Posts what has come down, completes what has come; how many.
  int advance();
  /// Whether advance() may find something although nothing comes from the network.
  bool copying() const { return !copying_.empty(); }

 private:
  struct Message {
    Request* request;  // the request that was posted here
    int priority;
    Pinned memory{};
    Event copied{};
    Request carried{};  // the request that the transport sees
  };
  struct Retired {  // a copy to or from it may be under way
    Pinned memory;
    Event copied;
  };

  void retire(Message& message, Event copied);

  Transport& transport_;
  std::deque<std::unique_ptr<Message>> copying_;  // on their way down, in the order of posting
  std::vector<std::unique_ptr<Message>> posted_;
  std::deque<Retired> retired_;
  std::vector<Pinned> abandoned_;  // memory of cancelled sends, which the network may still use
};

}  // namespace laconic::dist
