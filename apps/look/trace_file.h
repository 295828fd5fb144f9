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
};

/// Throws DataError where it is no such trace.
TraceFile parse_trace(std::string_view json);
/// Throws DataError, in the name of the file.
TraceFile read_trace(const std::string& path);

/// Where the steps begin: where the first module of the line goes forward, evaluation left out.
std::vector<double> step_starts(const TraceFile::Line& computing);
/// Says whether rank 0 begins a step after another.
bool has_whole_step(const TraceFile& trace);

}  // namespace laconic
