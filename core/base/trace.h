#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/scoped.h"

namespace laconic {

/// What ran when: named spans of time, one row per rank and thread, as Chrome trace JSON (ui.perfetto.dev opens it),
/// and arrows between spans where one made the other possible.
///
///   Trace trace;                                        // one per run; a run without one pays a pointer test a span
///   Trace::Thread here(trace.row(rank, "compute"));     // this thread now records there, until `here` goes
///   { Trace::Span span("conv1", "forward"); ... }       // anywhere below on the call stack
///   trace.write("trace.json");
///
/// Spans of one line nest or lie side by side; what overlaps otherwise (messages in flight) gets lines of its own. An
/// exchange of gradients is one chain of arrows: the backward that finished them, the operation, the wait for it where
/// there was one, the updates, the forward that needed them. A message is an arrow between two ranks.
/// All functions may be called from any thread. About 100 ns and 120 bytes a span; a row keeps its first 250,000 and
/// counts the rest.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;  // the same on all processes of a host, so that their traces line up
  static constexpr std::size_t kMaxEventsPerRow = 250'000;

  /// A place that an arrow passes. All that have one id, in any row, are one arrow in the order of time (`passes`), or
  /// the two ends of a message, which two processes may have recorded.
  struct Arrow {
    enum class Kind : unsigned char { passes, leaves, arrives };
    std::uint64_t id;
    Clock::time_point at;  ///< within the span that has it
    Kind kind = Kind::passes;
  };

  struct Event {
    std::string name{};
    const char* category = "";  ///< a literal: "forward", "backward", "wait", "update", "message", "hop", ...
    Clock::time_point begin{}, end{};
    std::int64_t bytes = -1;   ///< shown as an argument; -1 for none
    bool overlapping = false;  ///< others may begin inside and end outside of it
    std::vector<Arrow> arrows{};
    std::vector<Event> parts{};  ///< spans inside of it, that do not overlap
  };

  /// Mixes numbers into an id for arrows.
  static std::uint64_t arrow_id(std::initializer_list<std::uint64_t> numbers);

  /// One line of the picture. Owned by the trace.
  class Row {
   public:
    Row(int rank, std::string thread, bool on) : rank_(rank), thread_(std::move(thread)), on_(on) {}
    /// A span known by its ends. `overlapping` for things in flight at the same time, such as messages: they get
    /// lines of their own.
    void add(std::string_view name, const char* category, Clock::time_point begin, Clock::time_point end,
             std::int64_t bytes = -1, bool overlapping = false);
    void add(Event event);

    /// An arrow begins here: in the span that is open now, or else in the last one.
    void arrow_leaves(std::uint64_t id);
    /// An arrow has come: it goes on to the spans of category "update" that follow, and to the "forward" around them.
    void arrow_arrives(std::uint64_t id);
    /// What has come so far goes no further.
    void forget_arrows();

   private:
    struct Leaving {
      Arrow arrow;
      std::size_t before;  // the spans known then
    };
    friend class Trace;
    const int rank_;
    const std::string thread_;
    std::atomic<bool> on_;
    std::mutex mutex_;  // uncontended except while writing
    std::vector<Event> events_;
    std::vector<Leaving> leaving_;  // whose span has not ended yet, or never will
    std::vector<Arrow> arrived_;
    std::uint64_t dropped_ = 0;
  };

  /// The row of that rank and name; made at the first call. Stays valid as long as the trace.
  Row& row(int rank, const std::string& thread);

  /// Whether the rows of that rank, also those made later, take anything in; at first they do.
  void record(int rank, bool on);

  /// While it lives, spans of this thread go to `row` (nullptr: nowhere). Nests.
  struct Thread : Scoped<Row*> {
    explicit Thread(Row* row) : Scoped(current_, row) {}
    explicit Thread(Row& row) : Thread(&row) {}
  };
  static Row* current() { return current_; }  ///< the row of this thread, or nullptr

  /// The time from here to the end of the scope, on this thread's row. Spans on one thread nest. The name must live
  /// as long as the span.
  class Span {
   public:
    Span(std::string_view name, const char* category, std::int64_t bytes = -1) : row_(current_) {
      if (row_) [[unlikely]]
        name_ = name, category_ = category, bytes_ = bytes, begin_ = Clock::now();
    }
    ~Span() {
      if (row_) [[unlikely]]
        row_->add(name_, category_, begin_, Clock::now(), bytes_);
    }
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    Row* row_;
    std::string_view name_;
    const char* category_ = nullptr;
    std::int64_t bytes_ = -1;
    Clock::time_point begin_;
  };

  /// {"traceEvents": [...]}; times in microseconds. `more_follows`: spans that are open now are to be asked for later.
  /// Threads may record meanwhile. Copies all spans first.
  std::string json(bool more_follows = false);
  /// Writes json() under `path`, complete or not at all. Throws DataError.
  void write(const std::string& path, bool more_follows = false);

 private:
  class Writer;
  static thread_local constinit Row* current_;
  std::mutex mutex_;
  std::list<Row> rows_;
  std::map<int, bool> on_;
};

/// Joins the JSON of several traces (of processes of one host) into one file. Throws DataError.
void write_merged_traces(const std::vector<std::string>& jsons, const std::string& path);

}  // namespace laconic
