// laconic report: a page about trainings, from what they have logged.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>

#include "apps/look/report/report.h"
#include "apps/common/tools.h"
#include "apps/common/text.h"
#include "core/base/error.h"

namespace laconic {
int report(const std::vector<std::string>& arguments) {
  std::vector<std::string> logs, traces;
  std::string output;
  CLI::App app(
      "One page about one or several trainings: figures, curves of loss and accuracy over steps, "
      "seconds and bytes, where a step's time goes, the plan, the ledger, a timeline of some steps.\n"
      "It needs nothing but a browser.",
      "laconic report");
  app.add_option("logs", logs, "what --log has written; TITLE= before it names the run")
      ->required()
      ->type_name("[TITLE=]LOG...");
  app.add_option("--trace", traces, "what --trace has written of the first of them, or of TITLE")
      ->type_name("[TITLE=]FILE");
  app.add_option("-o,--output", output, "the page")->required()->type_name("FILE.html");
  if (const auto done = parse_tool(app, arguments)) return *done;
  std::vector<ReportedRun> runs;
  for (const std::string& argument : logs) {
    const auto [title, path] = title_and_file(argument);
    runs.push_back({title.empty() ? std::filesystem::path(path).stem().string() : title, path});
  }
  for (const std::string& argument : traces) {
    const auto [title, path] = title_and_file(argument);
    const auto run = title.empty() ? runs.begin() : std::ranges::find(runs, title, &ReportedRun::title);
    require<UsageError>(run != runs.end(), "there is no log with the title '", title, "' (--trace ", argument,
                        "): give one of theirs");
    run->trace = path;
  }
  for (const ReportedRun& run : runs)
    for (const std::string& path : {run.log, run.trace}) {
      std::error_code no_matter;
      require<UsageError>(!std::filesystem::equivalent(path, output, no_matter), "the page would be written over ",
                          path, " (--output): give another name");
    }
  write_report(runs, output);
  fmt::print("report: {}\n", output);
  return 0;
}

}  // namespace laconic
