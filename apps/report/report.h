#pragma once
#include <string>
#include <vector>

namespace laconic {

/// A training on a page.
struct ReportedRun {
  std::string title, log;  ///< what it is called there; what --log has written
  std::string trace = "";  ///< what --trace has written; empty: no timeline
};

/// One page of HTML that needs nothing else: figures, curves, where a step's time goes, the plan and the ledger where
/// logs have them, a timeline of some steps where there is a trace. Curves have at most 600 points, each of
/// neighbouring steps. throws DataError, in the name of the file, where one cannot be read or has no steps
std::string report_page(const std::vector<ReportedRun>& runs);

/// Writes it, or leaves a file that was there as it is.
void write_report(const std::vector<ReportedRun>& runs, const std::string& path);

}  // namespace laconic
