#include "dist/engine/wait_watch.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace laconic::dist {

WaitWatch::WaitWatch(Options options) : o_(std::move(options)) {}

void WaitWatch::connect(Transport& transport) {
  transport_ = &transport;
  signs_.resize(static_cast<std::size_t>(transport.size()));
  const double notes = transport.size() == 1 ? 2.0 : o_.timeout_seconds / 8;  // alone it has nobody to listen to
  beat_seconds_ = std::min({2.0, notes, o_.tell_seconds / 2});
}

/// What its compute thread does outside of the exchange, if it does.
std::optional<BusyThread::Now> WaitWatch::busy() const { return o_.blocked() ? std::nullopt : compute_thread_->now(); }

WaitWatch::Sign WaitWatch::own_sign() const {
  const std::optional<BusyThread::Now> now = busy();
  return {last_beat_, now.has_value(), now ? now->text : status()};
}

/// A note that begins with '?' asks for one that begins with '='. The second character tells a busy rank, 'b'.
void WaitWatch::exchange_notes() {
  // A process that was stopped for long (Ctrl-Z) has heard nobody meanwhile: the others have all their time again.
  if (seconds_since(last_beat_) > o_.timeout_seconds / 2) moved();
  last_beat_ = Clock::now();
  const Sign own = own_sign();
  const auto tell = [&](int rank, char kind) {
    transport_->tell(rank, concat(kind, own.busy ? 'b' : ' ', own.status));
  };
  if (own.busy) last_busy_ = last_beat_;
  while (const std::optional<Note> note = transport_->hear()) {
    if (note->text.size() < 2) continue;
    const Sign& sign =
        signs_[static_cast<std::size_t>(note->from)] = {last_beat_, note->text[1] == 'b', note->text.substr(2)};
    if (sign.busy) last_busy_ = last_beat_;
    if (note->text[0] == '?') tell(note->from, '=');
  }
  if (o_.waiting().empty() || seconds_since(last_progress_) < std::min(5.0, o_.timeout_seconds / 4)) return;
  for (int r = 0; r < transport_->size(); ++r)
    if (r != transport_->rank()) tell(r, '?');
}

void WaitWatch::tell_what_takes_long() {
  const std::optional<BusyThread::Now> now = busy();
  if (!now || (!now->with_files && transport_->size() == 1)) return;
  if (seconds_since(std::max(told_at_, now->since)) <
      std::max(o_.tell_seconds, now->with_files ? 0.0 : o_.timeout_seconds))
    return;
  told_at_ = Clock::now();
  std::fputs(concat("laconic: note: rank ", transport_->rank(), " ", now->text, "\n").c_str(), stderr);
}

void WaitWatch::require_in_time(Clock::time_point since, bool patient) const {
  const auto in_time = [&](Clock::time_point begin) { return seconds_since(begin) < o_.timeout_seconds; };
  if (in_time(std::max(since, last_progress_)) || o_.waiting().empty()) return;
  if ((patient || in_time(last_busy_)) && !silent_rank(o_.timeout_seconds)) return;
  const int size = transport_->size();
  std::string text =
      concat("engine: rank ", transport_->rank(), " of ", size, " saw nothing move for ", o_.timeout_seconds,
             " s: ", status(), ". ", verdict(), "Raise `timeout` if that is only slow.");
  for (int r = 0; r < size; ++r) {
    const Sign sign = r == transport_->rank() ? own_sign() : signs_[static_cast<std::size_t>(r)];
    text += concat("\n  rank ", r, ": ",
                   r == transport_->rank() || sign.heard > last_progress_ ? sign.status : "says nothing");
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
  const std::vector<Waiting> all = o_.waiting();
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

/// A rank that could have given a sign of life, and has not for so long.
std::optional<int> WaitWatch::silent_rank(double seconds) const {
  for (int r = 0; r < transport_->size(); ++r)
    if (r != transport_->rank() && silent_seconds(r) > seconds) return r;
  return std::nullopt;
}

/// Names the rank that keeps the others waiting, as far as the notes tell: a silent one first, then one that computes,
/// then one that is somewhere else.
std::string WaitWatch::verdict() const {
  if (const std::optional<int> r = silent_rank(o_.timeout_seconds / 2))
    return concat("There is no sign of life from rank ", *r, " since ", std::lround(silent_seconds(*r)), " s. ",
                  transport_->network_says());
  const std::string mine = o_.waiting().front().operation;
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
