#pragma once
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/common/statistics.h"

namespace laconic {

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

/// Writes that page of a training again and again while it goes on, and a browser that shows it renews itself. A thread
/// of its own does it, which takes no core that another wants, and a twentieth of the time at most. The training waits
/// for nothing. The page is written from the first step on, for the last time when this goes at the latest.
class LivePage {
 public:
  ///   run      its log is being written
  ///   seconds  from one page to the next, at least
  LivePage(const ReportedRun& run, const std::string& path, double seconds);

 private:
  std::jthread thread_;
};

}  // namespace laconic
