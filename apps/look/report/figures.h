#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/look/log_file.h"

namespace laconic {

/// The figures of one training that a page shows.
struct RunFigures {
  std::string title;
  LogFile log;                      ///< that has steps
  std::vector<LoggedStep> timed{};  ///< those that times are taken from, where they are not the log's
};

/// The JSON that a page draws a training from, without a timeline: some 60 kB at most, but for plan, ledger and
/// gradients.
nlohmann::ordered_json drawn(const RunFigures& run);

/// The measure that a run is judged by, in one evaluation of its log.
struct Judged {
  std::string by, unit;
  nlohmann::ordered_json value;
};
Judged quality_of(const nlohmann::json& eval);

/// null where the field is missing or no number.
nlohmann::ordered_json number_or_null(const nlohmann::json& object, const char* field);

}  // namespace laconic
