#pragma once
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace laconic {

/// What ran when: named spans of time, one row per rank and thread, as Chrome trace JSON (ui.perfetto.dev opens it).
///
///   Trace trace;                                        // one per run; a run without one pays a pointer test a span
///   Trace::Thread here(trace.row(rank, "compute"));     // this thread now records there, until `here` goes
///   { Trace::Span span("conv1", "forward"); ... }       // anywhere below on the call stack
///   trace.write("trace.json");
///
/// All functions may be called from any thread. About 60 ns and 60 bytes a span; a row keeps its first 1,000,000 and
/// counts the rest.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;  // the same on all processes of a host, so that their traces line up
  static constexpr std::size_t kMaxEventsPerRow = 1'000'000;

  struct Event {
    std::string name;
    const char* category;  ///< a literal: "forward", "backward", "select", "message", ...
    Clock::time_point begin, end;
    std::int64_t bytes;  ///< shown as an argument; -1 for none
    bool overlapping;    ///< others may begin inside and end outside of it
  };

  /// One line of the picture. Owned by the trace.
  class Row {
   public:
    Row(int rank, std::string thread) : rank_(rank), thread_(std::move(thread)) {}
    /// A span known by its ends. `overlapping` for things in flight at the same time, such as messages: they get
    /// lines of their own.
    void add(std::string_view name, const char* category, Clock::time_point begin, Clock::time_point end,
             std::int64_t bytes = -1, bool overlapping = false);

   private:
    friend class Trace;
    const int rank_;
    const std::string thread_;
    std::mutex mutex_;  // uncontended except while writing
    std::vector<Event> events_;
    std::uint64_t dropped_ = 0;
  };

  /// The row of that rank and name; made at the first call. Stays valid as long as the trace.
  Row& row(int rank, const std::string& thread);

  /// While it lives, spans of this thread go to `row` (nullptr: nowhere). Nests.
  class Thread {
   public:
    explicit Thread(Row* row) : before_(current_) { current_ = row; }
    explicit Thread(Row& row) : Thread(&row) {}
    ~Thread() { current_ = before_; }
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

   private:
    Row* before_;
  };
  static Row* current() { return current_; }  ///< where this thread records, or nullptr

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

  /// {"traceEvents": [...]}; times in microseconds.
  std::string json();
  /// Writes json() under `path`, complete or not at all. Throws DataError.
  void write(const std::string& path);

 private:
  static thread_local constinit Row* current_;
  std::mutex mutex_;
  std::list<Row> rows_;
};

/// Joins the JSON of several traces (of processes of one host) into one file. Throws DataError.
void write_merged_traces(const std::vector<std::string>& jsons, const std::string& path);

}  // namespace laconic
