#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace laconic {

/// What --trace has written, read again. Times are in microseconds.
struct TraceFile {
  struct Span {
    std::string name, category;
    double begin = 0, end = 0;
    std::int64_t bytes = -1;  ///< -1: none are told
    int around = -1;          ///< the innermost span that it lies in, in the line; -1: none
  };
  struct Line {
    std::string name;
    std::vector<Span> spans{};  ///< by their begin, outer ones first

    /// The innermost span at that time, of a category if one is named; nullptr: none. Costs O(log n).
    const Span* at(double time, std::string_view category = {}) const;
  };
  /// A place that an arrow passes.
  struct Point {
    int rank, line;
    double time;
  };

  std::map<int, std::map<int, Line>> ranks;               ///< their lines, by rank and number
  std::map<std::string, std::vector<Point>> gradients{};  ///< by the arrow's id, in the order of time
  std::map<std::string, std::vector<Point>> messages{};   ///< likewise: from one rank to another

  /// The line of the rank's computing thread; nullptr: it has not computed.
  const Line* computing(int rank) const;
  const Span* at(const Point& point, std::string_view category = {}) const;
};

/// Throws DataError where it is no such trace.
TraceFile parse_trace(std::string_view json);
/// Throws DataError, in the name of the file.
TraceFile read_trace(const std::string& path);

/// Where the steps begin: where the first module of the line goes forward, evaluation left out.
std::vector<double> step_starts(const TraceFile::Line& computing);
/// Says whether rank 0 begins a step after another.
bool has_whole_step(const TraceFile& trace);
/// Whether the span, or one that it lies in, is an evaluation.
bool in_evaluation(const TraceFile::Line& line, const TraceFile::Span& span);

/// Where the time of a rank's steps went, in ms: medians over steps, so that a first one which sets things up does not
/// count. With --accumulate a micro-batch is a step.
struct TraceSummary {
  int rank = 0;
  std::size_t steps = 0;
  double step_ms = 0;
  /// The computing thread's time by category. A span inside of another counts for itself alone: "update" inside of
  /// "forward" is update.
  /// "other": in no span.
  std::map<std::string, double> ms{};
  /// At least one message was under way: partly at the same time as the above.
  double messages_ms = 0;
};

/// One for each rank that has computed, in their order; evaluation is left out. Throws DataError where none has, or one
/// for less than two steps (apps/look/inspect_trace.cc).
std::vector<TraceSummary> summarize_trace(const TraceFile& trace);

}  // namespace laconic
