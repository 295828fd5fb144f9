#include "core/base/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "core/base/atomic_file.h"

namespace laconic {
namespace {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double microseconds(Trace::Clock::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

}  // namespace

thread_local constinit Trace::Row* Trace::current_ = nullptr;

std::uint64_t Trace::arrow_id(std::initializer_list<std::uint64_t> numbers) {
  std::uint64_t id = 14695981039346656037u;
  for (std::uint64_t n : numbers) {
    id = (id ^ n) * 0x9e3779b97f4a7c15u;
    id ^= id >> 29;
  }
  return id;
}

void Trace::Row::add(std::string_view name, const char* category, Clock::time_point begin, Clock::time_point end,
                     std::int64_t bytes, bool overlapping) {
  add({.name = std::string(name),
       .category = category,
       .begin = begin,
       .end = end,
       .bytes = bytes,
       .overlapping = overlapping});
}

void Trace::Row::add(Event event) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  for (Leaving& l : std::exchange(leaving_, {})) {
    const bool inside = event.begin <= l.arrow.at && l.arrow.at <= event.end;
    if (inside)
      event.arrows.push_back(l.arrow);
    else if (l.before > 0 && l.before <= events_.size())
      events_[l.before - 1].arrows.push_back(l.arrow);
  }
  const std::string_view category = event.category;
  if (category == "update") {
    for (Arrow& a : arrived_) {
      event.arrows.push_back({a.id, event.begin});
      a.at = event.end + std::chrono::nanoseconds(1);  // it goes on behind the update
    }
  } else if (category == "forward") {
    for (const Arrow& a : std::exchange(arrived_, {}))
      if (event.begin <= a.at) event.arrows.push_back(a);
  }
  if (events_.size() < kMaxEventsPerRow)
    events_.push_back(std::move(event));
  else
    ++dropped_;
}

void Trace::Row::arrow_leaves(std::uint64_t id) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  leaving_.push_back({{id, Clock::now()}, events_.size()});
}

void Trace::Row::arrow_arrives(std::uint64_t id) {
  if (!on_) return;
  const std::lock_guard lock(mutex_);
  arrived_.push_back({id, Clock::now()});
}

void Trace::Row::forget_arrows() {
  const std::lock_guard lock(mutex_);
  arrived_.clear();
}

Trace::Row& Trace::row(int rank, const std::string& thread) {
  const std::lock_guard lock(mutex_);
  for (Row& row : rows_)
    if (row.rank_ == rank && row.thread_ == thread) return row;
  return rows_.emplace_back(rank, thread, on_.try_emplace(rank, true).first->second);
}

void Trace::record(int rank, bool on) {
  const std::lock_guard lock(mutex_);
  on_[rank] = on;
  for (Row& row : rows_)
    if (row.rank_ == rank) row.on_ = on;
}

/// Writes one trace's events, one a line.
class Trace::Writer {
 public:
  /// Which of an arrow's places come first and last: chains are known only when all rows are there.
  void learn(const Event& event) {
    for (const Arrow& a : event.arrows) {
      if (a.kind != Arrow::Kind::passes) continue;
      const auto at = within(a, event);
      auto [place, fresh] = chains_.try_emplace(a.id, Chain{at, at, 1});
      if (fresh) continue;
      place->second.first = std::min(place->second.first, at);
      place->second.last = std::max(place->second.last, at);
      ++place->second.places;
    }
    for (const Event& part : event.parts) learn(part);
  }

  void name(int pid, int tid, const std::string& thread) {
    line(R"("ph":"M","name":"process_name","pid":{0},"tid":{1},"args":{{"name":"rank {0}"}})", pid, tid);
    line(R"("ph":"M","name":"process_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{0}}})", pid, tid);
    line(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}})", pid, tid, json_string(thread));
    line(R"("ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}})", pid, tid, tid);
  }

  void span(int pid, int tid, const Event& event) {
    line(R"("ph":"X","name":{},"cat":{},"pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f}{})", json_string(event.name),
         json_string(event.category), pid, tid, microseconds(event.begin.time_since_epoch()),
         microseconds(event.end - event.begin),
         event.bytes >= 0 ? fmt::format(R"(,"args":{{"bytes":{}}})", event.bytes) : "");
    for (const Event& part : event.parts) span(pid, tid, part);
    for (const Arrow& a : event.arrows) {
      const auto at = within(a, event);
      const char* phase = "t";
      if (a.kind == Arrow::Kind::passes) {
        Chain& chain = chains_.at(a.id);
        if (chain.places < 2) continue;
        if (at == chain.first && !std::exchange(chain.begun, true))
          phase = "s";
        else if (at == chain.last && !std::exchange(chain.ended, true))
          phase = "f";
      } else {
        phase = a.kind == Arrow::Kind::leaves ? "s" : "f";
      }
      line(R"("ph":"{}","bp":"e","name":"{}","cat":"arrow","pid":{},"tid":{},"ts":{:.3f},"id":"{:016x}")", phase,
           a.kind == Arrow::Kind::passes ? "gradient" : "message", pid, tid, microseconds(at.time_since_epoch()), a.id);
    }
  }

  std::string text() { return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + text_ + "\n]}\n"; }

 private:
  struct Chain {
    Clock::time_point first, last;
    int places;
    bool begun = false, ended = false;
  };

  /// A viewer finds the span of an arrow's end by time: not at its very end, where the next one may begin.
  static Clock::time_point within(const Arrow& arrow, const Event& event) {
    return std::clamp(arrow.at, event.begin, std::max(event.begin, event.end - std::chrono::nanoseconds(1)));
  }

  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_ += text_.empty() ? "\n{" : ",\n{";
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    text_ += '}';
  }

  std::string text_;
  std::unordered_map<std::uint64_t, Chain> chains_;
};

std::string Trace::json(bool more_follows) {
  struct Kept {
    const Row& row;
    std::vector<Event> events;
    std::uint64_t dropped;
  };
  Writer writer;
  int tid = 0;
  const std::lock_guard lock(mutex_);
  // Copies, since threads go on recording: an arrow that comes after learn() would be in no chain.
  std::vector<Kept> all;
  for (Row& row : rows_) {
    const std::lock_guard row_lock(row.mutex_);
    if (!more_follows)
      for (const Row::Leaving& l : std::exchange(row.leaving_, {}))
        if (l.before > 0 && l.before <= row.events_.size()) row.events_[l.before - 1].arrows.push_back(l.arrow);
    all.push_back({row, row.events_, row.dropped_});
  }
  for (const Kept& kept : all)
    for (const Event& event : kept.events) writer.learn(event);
  for (const auto& [row, events, spans_dropped] : all) {
    // Overlapping spans: each to the first line that is free when it begins.
    std::vector<const Event*> overlapping;
    for (const Event& event : events)
      if (event.overlapping) overlapping.push_back(&event);
    std::stable_sort(overlapping.begin(), overlapping.end(),
                     [](const Event* a, const Event* b) { return a->begin < b->begin; });
    std::vector<std::vector<const Event*>> lines;
    for (const Event* event : overlapping) {
      auto free =
          std::find_if(lines.begin(), lines.end(), [&](const auto& line) { return line.back()->end <= event->begin; });
      if (free == lines.end()) free = lines.emplace(lines.end());
      free->push_back(event);
    }
    const bool plain = overlapping.size() < events.size() || events.empty();
    const std::string dropped = spans_dropped ? fmt::format(" ({} later spans not kept)", spans_dropped) : "";
    if (plain) {
      writer.name(row.rank_, ++tid, row.thread_ + dropped);
      for (const Event& event : events)
        if (!event.overlapping) writer.span(row.rank_, tid, event);
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::size_t number = i + (plain ? 2 : 1);
      writer.name(row.rank_, ++tid, row.thread_ + (number == 1 ? dropped : fmt::format(" {}", number)));
      for (const Event* event : lines[i]) writer.span(row.rank_, tid, *event);
    }
  }
  return writer.text();
}

void Trace::write(const std::string& path, bool more_follows) {
  AtomicFile file(path);
  file.write(json(more_follows));
  file.commit();
}

void write_merged_traces(const std::vector<std::string>& jsons, const std::string& path) {
  AtomicFile file(path);
  file.write("{\"traceEvents\":[\n");
  bool first = true;
  for (const std::string& json : jsons) {
    const auto open = json.find('['), close = json.rfind(']');
    if (open == std::string::npos || close == std::string::npos || json.find('{', open) == std::string::npos) continue;
    if (!std::exchange(first, false)) file.write(",");
    file.write(std::string_view(json).substr(open + 1, close - open - 1));
  }
  file.write("]}\n");
  file.commit();
}

}  // namespace laconic
