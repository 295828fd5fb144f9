#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "dist/transport/transport.h"

namespace laconic::dist {

/// What N ranks that are threads of one process share, whatever network is between them. `State`: of a rank, under the
/// same lock. Any thread.
template <class State>
struct ThreadHub {
  explicit ThreadHub(int size) {
    require<UsageError>(size >= 1, "local transport: ", size, " workers make no group. Ask for at least 1.");
    for (int r = 0; r < size; ++r) ranks.push_back(std::make_unique<Rank>());
  }
  int size() const { return static_cast<int>(ranks.size()); }
  /// Every progress() of every rank throws CommError with this sentence. The first one stays.
  void abort(const std::string& sentence) {
    std::lock_guard lock(mutex);
    if (std::exchange(aborted, true)) return;
    reason = sentence;
    for (auto& rank : ranks) rank->changed.notify_all();
  }

  // For its transports, under the lock.
  struct Rank : State {
    std::condition_variable changed{};
    bool woken = false;
    std::deque<Note> notes{};  // notes that came
  };
  Rank& at(int rank) { return *ranks[static_cast<std::size_t>(rank)]; }
  /// Where `sender` leaves what it gives to `receiver` in a slot; kept with the receiver.
  auto& channel(int sender, int receiver, int slot) {
    return at(receiver).incoming[static_cast<std::uint64_t>(sender) << 32 | static_cast<std::uint32_t>(slot)];
  }

  mutable std::mutex mutex;
  std::vector<std::unique_ptr<Rank>> ranks;
  bool aborted = false;
  std::string reason;
};

/// What is the same for every rank of such a hub.
template <class Hub>
class ThreadTransport : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Hub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}
  int rank() const final { return rank_; }
  int size() const final { return hub_->size(); }
  void wake() final {
    {
      std::lock_guard lock(hub_->mutex);
      own().woken = true;
    }
    own().changed.notify_all();
  }
  void abort(const std::string& reason, int) final { hub_->abort(reason); }
  std::optional<Note> hear() final {
    std::lock_guard lock(hub_->mutex);
    if (own().notes.empty()) return {};
    Note note = std::move(own().notes.front());
    own().notes.pop_front();
    return note;
  }

 protected:
  void start_tell(int rank, const std::string& note) final {
    std::lock_guard lock(hub_->mutex);
    hub_->at(rank).notes.push_back({rank_, note});
  }
  auto& own() const { return hub_->at(rank_); }
  /// Where a request of this rank meets its peer's.
  auto& channel_of(const Request& request) const {
    return request.kind == Request::Kind::send ? hub_->channel(rank_, request.peer, request.slot)
                                               : hub_->channel(request.peer, rank_, request.slot);
  }
  /// Under the lock. Throws if the world has ended.
  void require_world() const {
    if (hub_->aborted) throw CommError(hub_->reason);
  }
  /// The receiver's error; `bytes` were sent to it.
  static std::exception_ptr too_long(const char* network, std::size_t bytes, int receiver, const Request& receive) {
    return std::make_exception_ptr(CommError(
        concat(network, ": rank ", receive.peer, " sent ", bytes, " bytes to rank ", receiver, ", which has room for ",
               receive.size, " (slot ", receive.slot, "). Do all ranks run the same model and options?")));
  }

  const std::shared_ptr<Hub> hub_;
  const int rank_;
};

}  // namespace laconic::dist
