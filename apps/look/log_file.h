#pragma once
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/statistics.h"
#include "dist/trainer/report.h"

namespace laconic {

/// A field of an object; nothing, and "", where it is not there or of another kind.
std::optional<double> number_field(const nlohmann::json& object, const char* name);
std::string text_field(const nlohmann::json& object, const char* name);

/// A part of a step's time.
struct StepPart {
  const char *what, *figure, *kind;  ///< figure : its field in a step's line; kind : how the report's page colours it
};
inline constexpr StepPart kStepParts[] = {
    {"forward", "forward_ms", "forward"},    {"backward", "backward_ms", "backward"},
    {"updates", "update_ms", "update"},      {"choosing what to send", "select_ms", "select"},
    {"waiting for data", "data_ms", "data"}, {"waiting for gradients", "exposed_ms", "wait"}};

/// A step as tools read it from a log. NaN stands for what is not known. Times are in ms.
struct LoggedStep {
  double step, epoch, loss, lr, step_ms;
  double bytes_sent, bytes_sent_sum, bytes_dense;   ///< by rank 0, by all ranks; what rank 0 would send densely
  std::array<double, std::size(kStepParts)> parts;  ///< in the order of kStepParts
};

inline double ms_of(const LoggedStep& s) { return s.step_ms; }
inline double exposed_ms_of(const LoggedStep& s) { return s.parts.back(); }
/// Reads a step's line.
LoggedStep step_from(const nlohmann::json& line);

/// Holds what --log has written, as far as tools ask for it. docs/architecture.md, "Log", explains the fields.
struct LogFile {
  nlohmann::json run{}, plan{}, ledger{};  ///< the last of each; null if there is none
  RanksReport ranks{};                     ///< of all steps with as many workers as the last; no step: there is none
  std::vector<LoggedStep> steps{};         ///< of all runs that the log is of
  std::vector<std::pair<std::size_t, nlohmann::json>> evals{};  ///< evaluations, each after so many of the steps
  std::vector<std::pair<double, nlohmann::json>> gradients{};   ///< by step: what it says of them

  /// throws DataError if the file cannot be read, or is no log
  static LogFile read(const std::string& path);
};

/// Reads a line {"ranks": ...}. Throws nlohmann's exception if it is none.
RanksReport ranks_from(const nlohmann::json& ranks);

/// Steps from exchange to exchange, by the `run` of a log; 1 where it does not say.
std::size_t exchange_every(const nlohmann::json& run);

constexpr std::size_t kWarmUpSteps = 10;  ///< that do not count, of more than twice as many

/// The steps that count.
std::span<const LoggedStep> without_warm_up(std::span<const LoggedStep> steps);

/// The mean of a figure; NaN where a step does not have it.
template <class Figure>
double mean_over(std::span<const LoggedStep> steps, Figure figure) {
  double sum = 0;
  for (const LoggedStep& s : steps) sum += figure(s);
  return sum / static_cast<double>(steps.size());
}

/// The median over the steps that have the figure; 0: none has.
template <class Figure>
Median median_over(std::span<const LoggedStep> steps, Figure figure) {
  std::vector<double> values;
  for (const LoggedStep& s : steps)
    if (const double value = figure(s); std::isfinite(value)) values.push_back(value);
  return values.empty() ? Median{} : median(std::move(values));
}
/// Returns the means of times and bytes over each round (each_round).
std::vector<LoggedStep> rounds_of(std::span<const LoggedStep> steps, std::size_t every);

}  // namespace laconic
