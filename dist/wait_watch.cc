#include "dist/wait_watch.h"

#include <algorithm>
#include <cmath>

namespace laconic::dist {

WaitWatch::WaitWatch(double timeout_seconds, std::function<std::vector<Waiting>()> waiting)
    : timeout_seconds_(timeout_seconds),
      beat_seconds_(std::min(2.0, timeout_seconds / 8)),
      waiting_(std::move(waiting)) {}

void WaitWatch::connect(Transport& transport) {
  transport_ = &transport;
  signs_.resize(static_cast<std::size_t>(transport.size()));
}

/// A note that begins with '?' asks for one that begins with '='.
void WaitWatch::exchange_notes() {
  // A process that was stopped for long (Ctrl-Z) has heard nobody meanwhile: the others have all their time again.
  if (seconds_since(last_beat_) > timeout_seconds_ / 2) moved();
  last_beat_ = Clock::now();
  while (const std::optional<Note> note = transport_->hear()) {
    if (note->text.empty()) continue;
    signs_[static_cast<std::size_t>(note->from)] = {last_beat_, note->text.substr(1)};
    if (note->text[0] == '?') transport_->tell(note->from, "=" + status());
  }
  if (waiting_().empty() || seconds_since(last_progress_) < std::min(5.0, timeout_seconds_ / 4)) return;
  for (int r = 0; r < transport_->size(); ++r)
    if (r != transport_->rank()) transport_->tell(r, "?" + status());
}

void WaitWatch::require_in_time(Clock::time_point since, bool patient) const {
  if (seconds_since(std::max(since, last_progress_)) < timeout_seconds_ || waiting_().empty()) return;
  if (patient && !silent_rank()) return;
  const int size = transport_->size();
  std::string text =
      concat("engine: rank ", transport_->rank(), " of ", size, " saw nothing move for ", timeout_seconds_,
             " s: ", status(), ". ", verdict(), "Raise --timeout if that is only slow.");
  for (int r = 0; r < size; ++r) {
    const Sign& sign = signs_[static_cast<std::size_t>(r)];
    text += concat("\n  rank ", r, ": ",
                   r == transport_->rank()       ? status()
                   : sign.heard > last_progress_ ? sign.status
                                                 : "says nothing");
  }
  throw LostRank(text);
}

void WaitWatch::ended(const std::string& operation) {
  last_operation_ = operation;
  last_ended_ = Clock::now();
}

/// "allreduce conv1.weight waits for rank 2 (...); ..., allreduce fc waits for ..." or "computes, last seen in backward
/// at conv3.weight; ..."
std::string WaitWatch::status() const {
  constexpr std::size_t kNamed = 4;
  const std::vector<Waiting> all = waiting_();
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, all.size()); ++i)
    text += concat(i == 0 ? "" : ", ", all[i].operation, all[i].waits.empty() ? "" : " ", all[i].waits);
  if (all.size() > kNamed) text += concat(" and ", all.size() - kNamed, " more operations");
  if (!all.empty()) return text;
  text = "computes";
  {
    std::lock_guard lock(place_mutex_);
    if (const std::string* const place = place_.load(std::memory_order_acquire))
      text += concat(", last seen in ",
                     phase_.load(std::memory_order_relaxed) == Phase::forward ? "forward" : "backward", " at ", *place);
  }
  if (last_operation_.empty()) return text + "; it has communicated nothing so far";
  return concat(text, "; its last operation, ", last_operation_, ", ended ", std::lround(seconds_since(last_ended_)),
                " s ago");
}

void WaitWatch::forget_place() {
  std::lock_guard lock(place_mutex_);
  place_ = nullptr;
}

double WaitWatch::silent_seconds(int rank) const {
  return seconds_since(std::max(signs_[static_cast<std::size_t>(rank)].heard, last_progress_));
}

/// A rank that could have given a sign of life, and has not for half of the time-out.
std::optional<int> WaitWatch::silent_rank() const {
  for (int r = 0; r < transport_->size(); ++r)
    if (r != transport_->rank() && silent_seconds(r) > timeout_seconds_ / 2) return r;
  return std::nullopt;
}

/// Names the rank that keeps the others waiting, as far as the notes tell: a silent one first, then one that computes,
/// then one that is somewhere else.
std::string WaitWatch::verdict() const {
  if (const std::optional<int> r = silent_rank())
    return concat("There is no sign of life from rank ", *r, " since ", std::lround(silent_seconds(*r)), " s. ",
                  transport_->network_says());
  const std::string mine = waiting_().front().operation;
  std::string computing, elsewhere;
  for (int r = 0; r < transport_->size(); ++r) {
    if (r == transport_->rank()) continue;
    const std::string& status = signs_[static_cast<std::size_t>(r)].status;
    if (computing.empty() && status.starts_with("computes"))
      computing = concat("Rank ", r, " ", status, ". ");
    else if (elsewhere.empty() && status.find(mine) == std::string::npos)
      elsewhere = concat("Rank ", r, " is at another operation: ", status, ". ");
  }
  if (!computing.empty()) return computing;
  return elsewhere.empty() ? "All ranks wait for it. " : elsewhere;
}

}  // namespace laconic::dist
