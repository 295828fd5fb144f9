#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/inspect.h"
#include "apps/result_table.h"
#include "apps/subcommand.h"
#include "apps/trace_summary.h"
#include "core/error.h"

namespace laconic {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  require<DataError>(file.good(), "cannot read ", path, ". Give the path of a file that --trace has written.");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Those of the step first, in its order; others behind, by name.
std::vector<std::string> categories_of(const std::vector<TraceSummary>& ranks) {
  std::set<std::string> present;
  for (const TraceSummary& r : ranks)
    for (const auto& [category, ms] : r.ms) present.insert(category);
  std::vector<std::string> ordered;
  for (const char* known : {"forward", "backward", "gather", "select", "pack", "wait", "update", "other"})
    if (present.erase(known) > 0) ordered.emplace_back(known);
  ordered.insert(ordered.end(), present.begin(), present.end());
  return ordered;
}

}  // namespace

int inspect_trace(const std::vector<std::string>& arguments) {
  std::string file;
  bool json = false, markdown = false;
  CLI::App app("Where the time of the steps in a trace went, in ms a step: the median over steps.",
               "laconic inspect trace");
  app.add_option("file", file, "what --trace has written")->required()->type_name("FILE");
  app.add_flag("--json", json, "one object");
  app.add_flag("--markdown", markdown, "a table for docs");
  if (const auto done = parse_tool(app, arguments)) return *done;
  std::vector<TraceSummary> ranks;
  try {
    ranks = summarize_trace(contents(file));
  } catch (const DataError& e) {
    throw DataError(concat(file, ": ", e.what()));
  }
  if (json) {
    auto list = nlohmann::ordered_json::array();
    for (const TraceSummary& r : ranks)
      list.push_back(
          {{"rank", r.rank}, {"steps", r.steps}, {"step_ms", r.step_ms}, {"ms", r.ms}, {"messages_ms", r.messages_ms}});
    fmt::print("{}\n", nlohmann::ordered_json{{"ranks", list}}.dump());
    return 0;
  }
  const std::vector<std::string> categories = categories_of(ranks);
  std::vector<std::string> columns{"rank", "steps", "ms a step"};
  columns.insert(columns.end(), categories.begin(), categories.end());
  columns.emplace_back("messages under way");
  const ResultTable table(columns, markdown);
  table.title(file);
  for (const TraceSummary& r : ranks) {
    std::vector<std::string> cells{std::to_string(r.rank), std::to_string(r.steps), fmt::format("{:.1f}", r.step_ms)};
    for (const std::string& category : categories) {
      const auto found = r.ms.find(category);
      cells.push_back(found == r.ms.end() ? "" : fmt::format("{:.2f}", found->second));
    }
    cells.push_back(fmt::format("{:.1f}", r.messages_ms));
    table.row(cells);
  }
  return 0;
}

}  // namespace laconic
