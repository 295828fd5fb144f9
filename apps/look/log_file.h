#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/statistics.h"
#include "dist/trainer/straggler.h"

namespace laconic {

/// Holds what --log has written, as far as tools ask for it. docs/architecture.md, "Log", explains the fields.
struct LogFile {
  nlohmann::json run{}, plan{}, ledger{};  ///< the last of each; null if there is none
  RanksReport ranks{};                     ///< of all steps with as many workers as the last; no step: there is none
  std::vector<nlohmann::json> steps{};     ///< of all runs that the log is of
  std::vector<std::pair<std::size_t, nlohmann::json>> evals{};  ///< evaluations, each after so many of the steps

  /// throws DataError if the file cannot be read, or is no log
  static LogFile read(const std::string& path);
};

/// A part of a step's time.
struct StepPart {
  const char *what, *figure, *kind;  ///< figure : its field in a step's line; kind : how the report's page colours it
};
inline constexpr StepPart kStepParts[] = {
    {"forward", "forward_ms", "forward"},    {"backward", "backward_ms", "backward"},
    {"updates", "update_ms", "update"},      {"choosing what to send", "select_ms", "select"},
    {"waiting for data", "data_ms", "data"}, {"waiting for gradients", "exposed_ms", "wait"}};

/// Reads a line {"ranks": ...}. Throws nlohmann's exception if it is none.
RanksReport ranks_from(const nlohmann::json& ranks);

/// Steps from exchange to exchange, by the `run` of a log; 1 where it does not say.
std::size_t exchange_every(const nlohmann::json& run);

constexpr std::size_t kWarmUpSteps = 10;  ///< that do not count, of more than twice as many

/// The steps that count.
std::vector<nlohmann::json> without_warm_up(std::vector<nlohmann::json> steps);

/// Returns the means of step_ms and of a step's parts over each round (each_round).
std::vector<nlohmann::json> in_rounds(const std::vector<nlohmann::json>& steps, std::size_t every);

/// The median of a figure over the steps that have it; 0: none has.
Median median_of_steps(const std::vector<nlohmann::json>& steps, const char* figure);

}  // namespace laconic
