// The engine's watch: what is missing when nothing moves.
#include <algorithm>
#include <cmath>

#include "dist/engine.h"

namespace laconic::dist {

/// Listens to the notes of other ranks, and tells them what this one waits for if it waits long already. A note that
/// begins with '?' asks for one that begins with '='.
void Engine::exchange_notes() {
  const Clock::time_point now = Clock::now();
  last_beat_ = now;
  while (const std::optional<Note> note = transport_->hear()) {
    if (note->text.empty()) continue;
    signs_[static_cast<std::size_t>(note->from)] = {now, note->text.substr(1)};
    if (note->text[0] == '?') transport_->tell(note->from, "=" + status());
  }
  if (first_operation().empty() || seconds(now - last_progress_) < quiet_seconds_) return;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && transport_->can_tell()) transport_->tell(r, "?" + status());
}

/// Now and then: notes, and the end of a wait that is over its time.
void Engine::beat() {
  const Clock::time_point now = Clock::now();
  if (seconds(now - last_beat_) < beat_seconds_) return;
  exchange_notes();
  if (first_operation().empty()) return;
  std::lock_guard lock(mutex_);
  if (waiting_since_ && seconds(now - std::max(*waiting_since_, last_progress_)) >= options_.timeout_seconds &&
      (!patient_ || silent_rank()))
    throw LostRank(describe());
}

void Engine::wait_for_device(const Event& event, const std::string& what) {
  struct Standing {
    Engine& engine;
    ~Standing() { engine.standing_ = nullptr; }
  } standing{*this};
  standing_ = entered_;
  stands_for_ = what;
  last_progress_ = Clock::now();
  while (!event.reached()) {
    {
      std::lock_guard lock(mutex_);
      require<CommError>(!abort_asked_, abort_reason_);
      require<CommError>(!stop_ && !halt_asked_ && !failure_, "engine: halted while it waited for ", what);
    }
    transport_->progress();
    const Clock::time_point now = Clock::now();
    if (seconds(now - last_beat_) >= beat_seconds_) exchange_notes();
    if (seconds(now - last_progress_) >= options_.timeout_seconds) throw LostRank(describe());
    transport_->wait(std::min(beat_seconds_, Transport::kDevicePollSeconds));
  }
}

/// The one that stands for its device, or the first one under way, by slot; "" if none is.
std::string Engine::first_operation() const {
  if (standing_ != nullptr) return standing_->operation.name;
  for (const auto& [slot, queue] : slots_)
    if (!queue.empty()) return queue.front()->operation.name;
  return "";
}

/// "allreduce conv1.weight waits for rank 2 (...); ..., allreduce fc waits for ..." or "computes, last seen in backward
/// at conv3.weight; ..."
std::string Engine::status() const {
  constexpr int kNamed = 4;
  std::string text;
  int count = 0;
  for (const auto& [slot, queue] : slots_)
    for (const auto& running : queue) {
      if (++count > kNamed && running.get() != standing_) continue;
      std::string waits = running.get() == standing_ ? "waits for " + stands_for_
                          : running->comm            ? running->comm->waits_for()
                                                     : "";
      if (std::find(unready_.begin(), unready_.end(), running.get()) != unready_.end())
        waits = concat("waits for ", running->operation.device, " to come to it");
      text += concat(text.empty() ? "" : ", ", running->operation.name, waits.empty() ? "" : " ", waits);
    }
  if (count > kNamed) text += concat(" and ", count - kNamed, " more operations");
  if (count > 0) return text;
  text = "computes";
  {
    std::lock_guard lock(place_mutex_);
    if (const std::string* const place = place_.load(std::memory_order_acquire))
      text += concat(", last seen in ",
                     phase_.load(std::memory_order_relaxed) == Phase::forward ? "forward" : "backward", " at ", *place);
  }
  if (last_operation_.empty()) return text + "; it has communicated nothing so far";
  return concat(text, "; its last operation, ", last_operation_, ", ended ",
                std::lround(seconds(Clock::now() - last_ended_)), " s ago");
}

void Engine::forget_place() {
  std::lock_guard lock(place_mutex_);
  place_ = nullptr;
}

double Engine::silent_seconds(int rank) const {
  return seconds(Clock::now() - std::max(signs_[static_cast<std::size_t>(rank)].heard, last_progress_));
}

/// A rank that could have given a sign of life, and has not for half of the time-out.
std::optional<int> Engine::silent_rank() const {
  for (int r = 0; transport_->can_tell() && r < size_; ++r)
    if (r != rank_ && silent_seconds(r) > options_.timeout_seconds / 2) return r;
  return std::nullopt;
}

/// Who keeps the others waiting, as far as the notes tell: a silent rank before one that computes before one that is
/// somewhere else.
std::string Engine::verdict() const {
  if (!transport_->can_tell()) return "Is that rank alive? ";
  if (const std::optional<int> r = silent_rank())
    return concat("There is no sign of life from rank ", *r, " since ", std::lround(silent_seconds(*r)), " s. ");
  const std::string mine = first_operation();
  std::string computing, elsewhere;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const Sign& sign = signs_[static_cast<std::size_t>(r)];
    if (computing.empty() && sign.status.starts_with("computes"))
      computing = concat("Rank ", r, " ", sign.status, ". ");
    else if (elsewhere.empty() && sign.status.find(mine) == std::string::npos)
      elsewhere = concat("Rank ", r, " is at another operation: ", sign.status, ". ");
  }
  if (!computing.empty()) return computing;
  return elsewhere.empty() ? "All ranks wait for it. " : elsewhere;
}

std::string Engine::describe() const {
  std::string text = concat("engine: rank ", rank_, " of ", size_, " saw nothing move for ", options_.timeout_seconds,
                            " s: ", status(), ". ", verdict(), "Raise --timeout if that is only slow.");
  for (int r = 0; r < size_; ++r) {
    const Sign& sign = signs_[static_cast<std::size_t>(r)];
    const bool recent = sign.heard > last_progress_;
    if (r == rank_)
      text += concat("\n  rank ", r, ": ", status());
    else if (transport_->can_tell())
      text += concat("\n  rank ", r, ": ", recent ? sign.status : "says nothing");
  }
  return text;
}

}  // namespace laconic::dist
