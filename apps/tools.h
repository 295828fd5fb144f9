#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

// What `laconic NAME` does for most names: see their --help. Each returns the exit code, and throws Error.
namespace laconic {

int list_models(const std::vector<std::string>& arguments);         ///< laconic models
int codec(const std::vector<std::string>& arguments);               ///< laconic codec
int pack(const std::vector<std::string>& arguments);                ///< laconic pack
int inspect(const std::vector<std::string>& arguments);             ///< laconic inspect WHAT
int inspect_codec(const std::vector<std::string>& arguments);       ///< laconic inspect codec
int inspect_checkpoint(const std::vector<std::string>& arguments);  ///< laconic inspect checkpoint
int inspect_trace(const std::vector<std::string>& arguments);       ///< laconic inspect trace

/// Where the time of a rank's steps went, in ms. A step begins where the first module of the trace goes forward;
/// medians over steps, so that a first one which sets things up does not count. With --accumulate a micro-batch is a
/// step.
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

/// One for each rank that has computed, in their order; evaluation is left out. `json` is what --trace writes (at least
/// two steps). Throws DataError where it is no such trace.
std::vector<TraceSummary> summarize_trace(std::string_view json);

}  // namespace laconic
