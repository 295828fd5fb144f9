#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/stream.h"
#include "dist/transport/note_board.h"
#include "dist/transport/transport.h"

namespace laconic::dist {

/// What N workers that are threads of one process share: for teaching, tests, and workers that share one device.
/// A receive and a send of the same (sender, receiver, slot) are matched under one lock and copied outside of it, by
/// the thread that came second, straight from the sender's memory: nothing is buffered. Memory of devices is copied in
/// the order of both threads' work there, and nobody waits. Any thread.
class LocalHub {
 public:
  explicit LocalHub(int size);
  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  friend class LocalTransport;
  struct Completion {
    Request* request;
    std::size_t bytes;
    std::exception_ptr error;
    Event copied;  // of its device
  };
  struct Posted {
    Request* request;
    Event ready;  // of its device
  };
  struct Channel {  // of one (sender, receiver, slot): at most one of the two holds anything
    std::deque<Posted> sends, receives;
  };
  struct Rank {
    std::condition_variable changed;
    std::unordered_map<std::uint64_t, Channel> incoming;  // by sender and slot
    std::vector<Completion> completed;                    // by others, for this rank's thread to take
    bool woken = false;
  };
  NoteBoard notes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  bool aborted_ = false;
  std::string reason_;
};

/// Rank `rank` of a hub.
class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalHub> hub, int rank);
  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  bool reaches(Device) const override { return true; }
  void wake() override;
  void abort(const std::string& reason, int exit_code) override;
  bool can_tell() const override { return true; }
  std::optional<Note> hear() override { return hub_->notes_.take(rank_); }

 private:
  void start_tell(int rank, const std::string& note) override { hub_->notes_.put(rank, {rank_, note}); }
  void start_send(Request& request) override { start(request); }
  void start_recv(Request& request) override { start(request); }
  void cancel_started(Request& request) override;
  int poll() override;
  void sleep(double at_most_seconds) override;
  void start(Request& request);

  std::shared_ptr<LocalHub> hub_;
  int rank_;
  std::vector<LocalHub::Completion> taken_;
};

}  // namespace laconic::dist
