#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "dist/transport/transport.h"

namespace laconic::dist {

/// Tells what is missing when nothing moves: ranks that wait long tell each other what for, and the sentence of a
/// time-out names the rank that keeps the others waiting. Only the communication thread may call it; at() and
/// forget_place() are for the compute thread.
class WaitWatch {
 public:
  /// An operation under way, and what for: "waits for rank 2 (...)", or "".
  struct Waiting {
    std::string operation, waits;
  };
  /// `waiting` tells all of them, first the one that the rank waits for.
  WaitWatch(double timeout_seconds, std::function<std::vector<Waiting>()> waiting);
  void connect(Transport& transport);

  double beat_seconds() const { return beat_seconds_; }  ///< so often it is to look
  bool due() const { return seconds_since(last_beat_) >= beat_seconds_; }
  /// Listens to the notes of other ranks, and tells them what this one waits for if it waits long already.
  void exchange_notes();
  /// Throws LostRank if nothing has moved for the time-out, in a wait since then. A patient wait ends so only for a
  /// rank that gives no sign of life.
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
  std::string status() const;
  double silent_seconds(int rank) const;
  std::optional<int> silent_rank() const;
  std::string verdict() const;

  const double timeout_seconds_, beat_seconds_;
  const std::function<std::vector<Waiting>()> waiting_;
  Transport* transport_ = nullptr;
  Clock::time_point last_progress_ = Clock::now(), last_beat_{}, last_ended_{};
  std::string last_operation_;  // that ended
  struct Sign {                 // of life: what a rank last told about itself
    Clock::time_point heard{};
    std::string status{};
  };
  std::vector<Sign> signs_;  // by rank

  std::atomic<Phase> phase_{Phase::forward};
  std::atomic<const std::string*> place_{nullptr};
  mutable std::mutex place_mutex_;  // while the name is read
};

}  // namespace laconic::dist
