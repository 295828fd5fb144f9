// The engine's watch: what is missing when nothing moves.
#include <algorithm>
#include <cmath>

#include "dist/engine.h"

namespace laconic::dist {

/// Now and then: listens to the notes of other ranks, tells them what this one waits for if it waits long already, and
/// ends a wait that is over its time. A note that begins with '?' asks for one that begins with '='.
void Engine::beat() {
  const Clock::time_point now = Clock::now();
  if (seconds(now - last_beat_) < beat_seconds_) return;
  last_beat_ = now;
  while (const std::optional<Note> note = transport_->hear()) {
    if (note->text.empty()) continue;
    signs_[static_cast<std::size_t>(note->from)] = {now, note->text.substr(1)};
    if (note->text[0] == '?') transport_->tell(note->from, "=" + status());
  }
  if (first_operation().empty() || seconds(now - last_progress_) < quiet_seconds_) return;
  for (int r = 0; r < size_; ++r)
    if (r != rank_ && transport_->can_tell()) transport_->tell(r, "?" + status());
  std::lock_guard lock(mutex_);
  if (waiting_since_ && seconds(now - std::max(*waiting_since_, last_progress_)) >= options_.timeout_seconds)
    throw CommError(describe());
}

/// The first one under way, by slot; "" if none is.
std::string Engine::first_operation() const {
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
      if (++count > kNamed) continue;
      std::string waits = running->comm ? running->comm->waits_for() : "";
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

/// Who keeps the others waiting, as far as the notes tell: a silent rank before one that computes before one that is
/// somewhere else.
std::string Engine::verdict() const {
  if (!transport_->can_tell()) return "Is that rank alive? ";
  const Clock::time_point now = Clock::now();
  const std::string mine = first_operation();
  std::string computing, elsewhere;
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    const Sign& sign = signs_[static_cast<std::size_t>(r)];
    const double silent_seconds = seconds(now - std::max(sign.heard, last_progress_));
    if (silent_seconds > options_.timeout_seconds / 2)
      return concat("There is no sign of life from rank ", r, " since ", std::lround(silent_seconds), " s. ");
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
