#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "dist/engine/busy.h"
#include "dist/transport/transport.h"

namespace laconic::dist {

/// Tells what is missing when nothing moves: ranks that wait long tell each other what for, and the sentence of a
/// time-out names the rank that keeps the others waiting. While one says that it is busy, all wait. Only the
/// communication thread may call it; at() and forget_place() are for the compute thread, which makes it.
class WaitWatch {
 public:
  /// An operation under way, and what for: "waits for rank 2 (...)", or "".
  struct Waiting {
    std::string operation, waits;
  };
  struct Options {
    double timeout_seconds = 300, tell_seconds = 30;  ///< times of WorldOptions
    std::function<std::vector<Waiting>()> waiting{};  ///< all of them, first the one that the rank waits for
    std::function<bool()> blocked{};                  ///< the compute thread waits for an operation
  };
  explicit WaitWatch(Options options);
  void connect(Transport& transport);

  double beat_seconds() const { return beat_seconds_; }  ///< seconds from look to look
  bool due() const { return seconds_since(last_beat_) >= beat_seconds_; }
  /// Listens to the notes of other ranks, and tells them what this one waits for if it waits long already.
  void exchange_notes();
  /// Says on stderr, again and again, for which files this rank waits. Also says what it works at for longer than the
  /// time-out, while others may wait for it.
  void tell_what_takes_long();
  /// Throws LostRank if nothing has moved for the time-out, in a wait since then. While a rank is busy, or in a patient
  /// wait, it throws only for a rank that has given no sign of life for so long.
  void require_in_time(Clock::time_point since, bool patient) const;

  void moved() { last_progress_ = Clock::now(); }  ///< something came, left or was submitted
  void ended(const std::string& operation);

  /// Where the compute thread is, for what others hear of a rank that computes: two stores. `name` lives until after
  /// forget_place().
  enum class Phase : std::uint8_t { forward, backward };
  void at(Phase phase, const std::string& name) {
    phase_.store(phase, std::memory_order_relaxed);
    place_.store(&name, std::memory_order_release);
  }
  void forget_place();

 private:
  struct Sign {  // a sign of life: what a rank last told about itself
    Clock::time_point heard{};
    bool busy = false;
    std::string status{};
  };
  Sign own_sign() const;
  std::string status() const;
  std::optional<BusyThread::Now> busy() const;
  double silent_seconds(int rank) const;
  std::optional<int> silent_rank(double seconds) const;
  std::string verdict() const;

  const Options o_;
  double beat_seconds_ = 2;
  const std::shared_ptr<const BusyThread> compute_thread_ = BusyThread::here();
  Transport* transport_ = nullptr;
  Clock::time_point last_progress_ = Clock::now(), last_beat_{}, last_ended_{};
  Clock::time_point last_busy_{};            // when a rank, this one or another, last said that it was
  std::string last_operation_;               // the last that ended
  std::vector<Sign> signs_;                  // last signs, by rank
  Clock::time_point told_at_{};  // when it was last said what takes long

  std::atomic<Phase> phase_{Phase::forward};
  std::atomic<const std::string*> place_{nullptr};
  mutable std::mutex place_mutex_;  // held while the name is read
};

}  // namespace laconic::dist
