#pragma once
#include <array>
#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/look/log_file.h"

namespace laconic {

/// What a page knows of a step; NaN: not known. Times are in ms.
struct ReportedStep {
  double step, loss, lr, step_ms;
  double bytes_sent, bytes_sent_sum;  ///< by rank 0, by all ranks
  std::array<double, std::size(kStepParts)> parts;  ///< in the order of kStepParts
};

/// What a page knows of a training. The objects are those of a log (LogFile).
struct RunFigures {
  std::string title;
  nlohmann::json run{}, plan{}, ledger{};
  RanksReport ranks{};  ///< means over all steps
  std::vector<ReportedStep> steps{};
  std::vector<ReportedStep> timed{};  ///< those that times are taken from, where it is not `steps`
  std::vector<std::pair<std::size_t, nlohmann::json>> evals{};  ///< each after so many of the steps
  std::vector<std::pair<double, nlohmann::json>> gradients{};   ///< by step: what it says of them

  /// Takes a line of a log.
  void add(nlohmann::json line);
};

/// The JSON that a page draws a training from. Some 60 kB at most, but for plan, ledger and gradients. `run` has steps.
std::string drawn_as_json(const RunFigures& run);

/// The page that asks the server it came from for what it draws, again and again (apps/look/report/live.h).
std::string live_page();

/// A training on a page.
struct ReportedRun {
  std::string title, log;  ///< what it is called there; what --log has written
  std::string trace = "";  ///< what --trace has written; empty: no timeline
  // `compare` fills these in.
  std::vector<std::string> seeds{};          ///< logs with other seeds: curves are means
  std::vector<std::string> timed{};          ///< logs of its steps on a network, in short epochs: all times are theirs
  std::optional<Median> step_ms{}, ratio{};  ///< of the table, where that has them
  std::vector<std::pair<std::string, std::string>> further{};  ///< columns of the page's table, and its cells
  std::optional<double> target{};                              ///< to be reached by what is evaluated
};

/// One page of HTML that needs nothing else: figures, curves, where a step's time goes, the plan and the ledger where
/// logs have them, a timeline of some steps where there is a trace. Curves have at most 600 points, each of
/// neighbouring steps. throws DataError, in the name of the file, where one cannot be read or has no steps
std::string report_page(const std::vector<ReportedRun>& runs);

/// Writes it, or leaves a file that was there as it is.
void write_report(const std::vector<ReportedRun>& runs, const std::string& path);

}  // namespace laconic
