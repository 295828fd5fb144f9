#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "dist/transport/link.h"
#include "dist/transport/note_board.h"
#include "dist/transport/transport.h"

namespace laconic::dist {

/// How well an emulated network kept its times.
struct LinkUse {
  std::uint64_t deliveries = 0;
  std::uint64_t late = 0;  ///< the receiver took the message more than 2 ms after it was due
  double late_share() const {
    return deliveries == 0 ? 0 : static_cast<double>(late) / static_cast<double>(deliveries);
  }
};

/// What N workers that are threads of one process share when a network is emulated between them (LinkModel), in real
/// time. Bytes are copied when both sides are there, into a buffer while the receiver has not asked yet; requests are
/// completed when the model says so: a send when the port has sent it, a receive when it is due. Any thread.
class LinkedHub {
 public:
  LinkedHub(const LinkOptions& options, int size);
  int size() const { return static_cast<int>(ranks_.size()); }
  LinkUse use() const;

 private:
  friend class LinkedTransport;
  struct Completion {
    Request* request;
    std::size_t bytes;
    std::exception_ptr error;
  };
  struct Receive {
    Request* request = nullptr;
    LinkTime stamp{};  // it cannot be complete before somebody asked
  };
  struct Flight {  // a message, from its sending to its delivery
    int sender, receiver;
    std::size_t bytes;
    Request* send;                    // until it is sent, or cancelled
    Receive receive{};                // once the bytes are there
    std::vector<std::byte> buffer{};  // until then
    std::exception_ptr error{};       // of the receiver
    std::optional<LinkTime> due{};    // once the model has told
    bool dropped = false;             // its receive was cancelled
  };
  struct Channel {  // of one (sender, receiver, slot): at most one of the two holds anything
    std::deque<LinkModel::Id> sends;
    std::deque<Receive> receives;
  };
  struct Rank {
    std::condition_variable changed;
    std::unordered_map<std::uint64_t, Channel> incoming;  // by sender and slot
    std::multimap<LinkTime, Completion> completions;      // for this rank's thread, at these times
    LinkTime sleeps_until = LinkTime::min();
    bool woken = false;
  };

  std::vector<std::byte> take_buffer();
  void give_back(std::vector<std::byte>& buffer);
  void advance(LinkTime now);
  void deliver(std::map<LinkModel::Id, Flight>::iterator flight);

  NoteBoard notes_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  LinkModel model_;
  std::vector<LinkModel::Event> events_;
  std::map<LinkModel::Id, Flight> flights_;
  std::vector<std::vector<std::byte>> buffers_;  // to be used again: fresh memory costs more than the copy
  LinkUse use_;
  bool aborted_ = false;
  std::string reason_;
};

/// Rank `rank` of such a hub. Made on the communication thread, whose timer slack it sets to 1 ns; that thread sleeps
/// until the next event of its rank, never polls. What is posted in consequence of a completion is stamped with the
/// time at which that was due, not with the time of waking, unless the thread is more than 2 ms late: being late then
/// does not add up over the steps of a collective.
class LinkedTransport final : public Transport {
 public:
  LinkedTransport(std::shared_ptr<LinkedHub> hub, int rank);
  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  void wake() override;
  void abort(const std::string& reason, int exit_code) override;
  bool any_thread() const override { return false; }  // others have not the timer slack, and are nicer
  bool can_tell() const override { return true; }
  std::optional<Note> hear() override { return hub_->notes_.take(rank_); }

 private:
  void start_tell(int rank, const std::string& note) override { hub_->notes_.put(rank, {rank_, note}); }
  void start_send(Request& request) override;
  void start_recv(Request& request) override;
  void cancel_started(Request& request) override;
  int poll() override;
  void sleep(double at_most_seconds) override;

  LinkedHub::Rank& own() const { return *hub_->ranks_[static_cast<std::size_t>(rank_)]; }
  LinkTime stamp() const;
  void copy(std::byte* to, Device to_device, const std::byte* from, Device from_device, std::size_t bytes);

  std::shared_ptr<LinkedHub> hub_;
  int rank_;
  std::optional<LinkTime> due_;  // of what was completed last, until the thread sleeps
  LinkDuration copying_{0};      // since it slept: a network card's work, that must not make the thread late
};

}  // namespace laconic::dist
