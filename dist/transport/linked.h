#pragma once
#include <deque>
#include <map>
#include <unordered_map>
#include <vector>

#include "dist/transport/link.h"
#include "dist/transport/thread_hub.h"

namespace laconic::dist {

/// How well an emulated network kept its times.
struct LinkUse {
  std::uint64_t deliveries = 0;
  std::uint64_t late = 0;  ///< the receiver took the message more than 2 ms after it was due
  double late_share() const {
    return deliveries == 0 ? 0 : static_cast<double>(late) / static_cast<double>(deliveries);
  }
};

/// A message of an emulated network, from its sending to its delivery; and what a rank of its hub keeps there.
struct LinkedRank {
  struct Completion {
    Request* request;
    std::size_t bytes;
    std::exception_ptr error;
  };
  struct Receive {
    Request* request = nullptr;
    LinkTime stamp{};  // it cannot be complete before somebody asked
  };
  struct Flight {
    int sender, receiver;
    std::size_t bytes;
    Request* send;                    // null once it is sent or cancelled
    Receive receive{};                // once the bytes are there
    std::vector<std::byte> buffer{};  // the bytes until the receiver has asked
    std::exception_ptr error{};       // the receiver's error
    std::optional<LinkTime> due{};    // once the model has told
    bool dropped = false;             // its receive was cancelled
  };
  struct Channel {  // one (sender, receiver, slot): at most one of the two holds anything
    std::deque<SwitchModel::Id> sends;
    std::deque<Receive> receives;
  };
  std::unordered_map<std::uint64_t, Channel> incoming{};
  std::multimap<LinkTime, Completion> completions{};  // due completions for this rank's thread
  LinkTime sleeps_until = LinkTime::min();
};

/// Workers that are threads of one process with a network emulated between them (SwitchModel), in real time. Bytes are
/// copied when both sides are there, into a buffer while the receiver has not asked yet; requests are completed when
/// the model says so: a send when the port has sent it, a receive when it is due.
class LinkedHub : public ThreadHub<LinkedRank> {
 public:
  LinkedHub(const LinkOptions& options, int size) : ThreadHub(size), model_(options.model(size)) {}
  LinkUse use() const;

 private:
  friend class LinkedTransport;
  using Flights = std::map<SwitchModel::Id, LinkedRank::Flight>;
  std::vector<std::byte> take_buffer();
  void give_back(std::vector<std::byte>& buffer);
  void advance(LinkTime now);
  void deliver(Flights::iterator flight);

  SwitchModel model_;
  std::vector<SwitchModel::Event> events_;
  Flights flights_;
  std::vector<std::vector<std::byte>> buffers_;  // memory to use again: fresh memory costs more than the copy
  LinkUse use_;
};

/// Rank `rank` of such a hub. Made on the communication thread, whose timer slack it sets to 1 ns; that thread sleeps
/// until the next event of its rank, never polls. What is posted in consequence of a completion is stamped with the
/// time at which that was due, not with the time of waking, unless the thread is more than 2 ms late: being late then
/// does not add up over the steps of a collective.
class LinkedTransport final : public ThreadTransport<LinkedHub> {
 public:
  LinkedTransport(std::shared_ptr<LinkedHub> hub, int rank);
  bool any_thread() const override { return false; }  // others have not the timer slack, and are nicer

 private:
  void start(Request& request) override {
    request.kind == Request::Kind::send ? start_send(request) : start_recv(request);
  }
  void start_send(Request& request);
  void start_recv(Request& request);
  void cancel_started(Request& request) override;
  int poll() override;
  void sleep(double at_most_seconds) override;

  LinkTime stamp() const;
  void copy(std::byte* to, Device to_device, const std::byte* from, Device from_device, std::size_t bytes);

  std::optional<LinkTime> due_;  // when the newest completed message was due, until the thread sleeps
  LinkDuration copying_{0};      // since it slept: a network card's work, that must not make the thread late
};

}  // namespace laconic::dist
