#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/compare/result_table.h"
#include "apps/common/statistics.h"
#include "apps/common/subcommand.h"
#include "apps/common/tools.h"
#include "apps/look/trace_file.h"
#include "core/base/error.h"

namespace laconic {
namespace {

/// Calls visit(span, own time) for all spans of the line: what lies inside of one counts for itself alone.
template <typename Visit>
void for_own_times(const TraceFile::Line& line, const Visit& visit) {
  std::vector<double> own;
  for (const TraceFile::Span& s : line.spans) {
    own.push_back(s.end - s.begin);
    if (s.around >= 0) own[static_cast<std::size_t>(s.around)] -= s.end - s.begin;
  }
  for (std::size_t i = 0; i < own.size(); ++i) visit(line.spans[i], own[i]);
}

/// What [begin, end) intervals cover together, from `from` to `to`.
double covered(const std::vector<const TraceFile::Span*>& sorted, double from, double to) {
  double sum = 0, at = from;
  for (const TraceFile::Span* s : sorted) {
    const double begin = std::max(s->begin, at), end = std::min(s->end, to);
    if (end > begin) sum += end - begin, at = end;
  }
  return sum;
}

TraceSummary summary_of(int rank, const TraceFile::Line& computing,
                        const std::vector<const TraceFile::Span*>& messages) {
  std::vector<double> starts = step_starts(computing);
  require<DataError>(!starts.empty(), "rank ", rank, " has no forward in this trace");
  require<DataError>(starts.size() >= 2, "rank ", rank, " has ", starts.size(), " step in this trace");
  double end = 0;
  for (const TraceFile::Span& s : computing.spans)
    if (!in_evaluation(computing, s)) end = std::max(end, s.end);
  starts.push_back(end);

  const std::size_t steps = starts.size() - 1;
  std::map<std::string, std::vector<double>> by_category;
  std::vector<double> evaluated(steps);
  for_own_times(computing, [&](const TraceFile::Span& s, double own) {
    const auto after = std::ranges::upper_bound(starts, s.begin);
    if (after == starts.begin()) return;
    const std::size_t step = std::min(static_cast<std::size_t>(after - starts.begin()) - 1, steps - 1);
    if (in_evaluation(computing, s)) {
      evaluated[step] += own;
      return;
    }
    auto& sums = by_category[s.category];
    sums.resize(steps);
    sums[step] += own;
  });
  std::vector<double> whole(steps), other(steps), exchanging(steps);
  for (std::size_t i = 0; i < steps; ++i) {
    whole[i] = std::max(0.0, starts[i + 1] - starts[i] - evaluated[i]);
    other[i] = whole[i];
    for (const auto& [category, sums] : by_category) other[i] -= sums[i];
    exchanging[i] = covered(messages, starts[i], starts[i + 1]);
  }
  TraceSummary result{.rank = rank, .steps = steps, .step_ms = median(whole).value / 1e3};
  for (const auto& [category, sums] : by_category) result.ms[category] = median(sums).value / 1e3;
  result.ms["other"] = std::max(0.0, median(other).value / 1e3);
  result.messages_ms = median(exchanging).value / 1e3;
  return result;
}

}  // namespace

std::vector<TraceSummary> summarize_trace(const TraceFile& trace) {
  std::vector<TraceSummary> result;
  for (const auto& [rank, lines] : trace.ranks) {
    const TraceFile::Line* const computing = trace.computing(rank);
    if (!computing) continue;
    std::vector<const TraceFile::Span*> messages;
    for (const auto& [number, line] : lines)
      for (const TraceFile::Span& s : line.spans)
        if (&line != computing && s.category == "message") messages.push_back(&s);
    std::ranges::stable_sort(messages, {}, &TraceFile::Span::begin);
    result.push_back(summary_of(rank, *computing, messages));
  }
  require<DataError>(!result.empty(), "no rank has computed in this trace");
  return result;
}

namespace {

constexpr std::size_t kColumns = 6;  // for more ranks than that only the least, the median and the most are told

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

/// The path and what is said of it, in a line of at most 100 columns: a long path loses its beginning.
std::string titled(const std::string& path, const std::string& what) {
  const std::size_t room = 100 - what.size();
  if (path.size() <= room) return path + what;
  std::size_t from = path.size() - room + 1;
  while ((path[from] & 0xC0) == 0x80) ++from;  // inside of a letter
  return "…" + path.substr(from) + what;
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
  const TraceFile trace = read_trace(file);
  std::vector<TraceSummary> ranks;
  try {
    ranks = summarize_trace(trace);
  } catch (const DataError& e) {
    throw DataError(concat(file, ": ", e.what(), ". Name a file that --trace has written of some steps."));
  }
  if (json) {
    auto all = nlohmann::ordered_json::array();
    for (const TraceSummary& r : ranks)
      all.push_back(
          {{"rank", r.rank}, {"steps", r.steps}, {"step_ms", r.step_ms}, {"ms", r.ms}, {"messages_ms", r.messages_ms}});
    fmt::print("{}\n", nlohmann::ordered_json{{"ranks", all}}.dump());
    return 0;
  }
  ResultTable table(markdown);
  table.title(titled(file, concat(": ms a step, the median over ", ranks[0].steps, " steps")));
  const auto add = [&](const std::string& what, const auto& of) {
    Cells row{{"ms", "", what}};
    std::vector<double> values;
    for (const TraceSummary& r : ranks) values.push_back(of(r));
    if (values.size() <= kColumns) {
      for (std::size_t i = 0; i < values.size(); ++i)
        row.emplace_back(concat("rank ", ranks[i].rank), "", values[i], "{:.2f}");
    } else {
      std::ranges::sort(values);
      row.emplace_back(concat("least of ", values.size(), " ranks"), "", values.front(), "{:.2f}");
      row.emplace_back("median", "", median(values).value, "{:.2f}");
      row.emplace_back("most", "", values.back(), "{:.2f}");
    }
    table.add(row);
  };
  for (const std::string& category : categories_of(ranks))
    add(category, [&](const TraceSummary& r) {
      const auto found = r.ms.find(category);
      return found == r.ms.end() ? 0.0 : found->second;
    });
  add("a whole step", [](const TraceSummary& r) { return r.step_ms; });
  add("messages under way, beside these", [](const TraceSummary& r) { return r.messages_ms; });
  fmt::print("{}", table.text());
  return 0;
}

}  // namespace laconic
