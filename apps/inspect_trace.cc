#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/result_table.h"
#include "apps/statistics.h"
#include "apps/subcommand.h"
#include "apps/tools.h"
#include "core/error.h"
#include "data/input_file.h"

namespace laconic {
namespace {

struct Span {
  std::string name, category;
  double begin, end;  // us
};

struct RankSpans {
  std::map<int, std::string> threads;  // names of lines
  std::map<int, std::vector<Span>> lines;
};

std::map<int, RankSpans> spans_by_rank(std::string_view text) {
  std::map<int, RankSpans> ranks;
  try {
    const auto trace = nlohmann::json::parse(text);
    for (const auto& event : trace.at("traceEvents")) {
      RankSpans& rank = ranks[event.at("pid").get<int>()];
      const int line = event.at("tid").get<int>();
      const auto kind = event.at("ph").get<std::string>();
      if (kind == "M" && event.at("name") == "thread_name") rank.threads[line] = event.at("args").at("name");
      if (kind != "X") continue;
      const double begin = event.at("ts"), length = event.at("dur");
      rank.lines[line].push_back({event.at("name"), event.at("cat"), begin, begin + length});
    }
  } catch (const nlohmann::json::exception&) {
    throw DataError("this is no trace: --trace writes them");
  }
  return ranks;
}

/// Outer ones first.
void sort_by_time(std::vector<Span>& spans) {
  std::ranges::sort(
      spans, [](const Span& a, const Span& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
}

bool in_evaluation(const std::vector<const Span*>& open) {
  return std::ranges::any_of(open, [](const Span* s) { return s->category == "evaluation"; });
}

/// Calls visit(span, own time, evaluating) for spans that nest.
template <typename Visit>
void for_own_times(const std::vector<Span>& spans, const Visit& visit) {
  constexpr double kRounding = 0.0015;  // times are written to 1 ns
  std::vector<const Span*> open;
  std::vector<double> own;
  const auto close = [&] {
    const Span* const s = open.back();
    visit(*s, own.back(), in_evaluation(open));
    open.pop_back(), own.pop_back();
  };
  for (const Span& s : spans) {
    while (!open.empty() && open.back()->end <= s.begin + kRounding) close();
    if (!open.empty()) own.back() -= s.end - s.begin;
    open.push_back(&s), own.push_back(s.end - s.begin);
  }
  while (!open.empty()) close();
}

/// What [begin, end) intervals cover together, from `from` to `to`.
double covered(const std::vector<Span>& sorted, double from, double to) {
  double sum = 0, at = from;
  for (const Span& s : sorted) {
    const double begin = std::max(s.begin, at), end = std::min(s.end, to);
    if (end > begin) sum += end - begin, at = end;
  }
  return sum;
}

TraceSummary summary_of(int rank, std::vector<Span> computing, std::vector<Span> messages) {
  sort_by_time(computing), sort_by_time(messages);
  const auto first = std::ranges::find(computing, "forward", &Span::category);
  require<DataError>(first != computing.end(), "rank ", rank, " has no forward in this trace");
  std::vector<double> starts;
  double end = 0;
  for_own_times(computing, [&](const Span& s, double, bool evaluating) {
    if (evaluating) return;
    end = std::max(end, s.end);
    if (s.category == "forward" && s.name == first->name) starts.push_back(s.begin);
  });
  std::ranges::sort(starts);
  require<DataError>(starts.size() >= 2, "rank ", rank, " has ", starts.size(), " step in this trace: train some");
  starts.push_back(end);

  const std::size_t steps = starts.size() - 1;
  std::map<std::string, std::vector<double>> by_category;
  std::vector<double> evaluated(steps);
  for_own_times(computing, [&](const Span& s, double own, bool evaluating) {
    const auto after = std::ranges::upper_bound(starts, s.begin);
    if (after == starts.begin()) return;
    const std::size_t step = std::min(static_cast<std::size_t>(after - starts.begin()) - 1, steps - 1);
    if (evaluating) {
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

std::vector<TraceSummary> summarize_trace(std::string_view json) {
  std::vector<TraceSummary> result;
  for (auto& [rank, spans] : spans_by_rank(json)) {
    std::vector<Span> computing, messages;
    for (auto& [line, events] : spans.lines)
      for (Span& s : events) {
        if (spans.threads[line] == "compute")
          computing.push_back(std::move(s));
        else if (s.category == "message")
          messages.push_back(std::move(s));
      }
    if (!computing.empty()) result.push_back(summary_of(rank, std::move(computing), std::move(messages)));
  }
  require<DataError>(!result.empty(), "no rank has computed in this trace");
  return result;
}

namespace {

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
  const std::vector<std::byte> text = read_file(file);
  std::vector<TraceSummary> ranks;
  try {
    ranks = summarize_trace({reinterpret_cast<const char*>(text.data()), text.size()});
  } catch (const DataError& e) {
    throw DataError(concat(file, ": ", e.what()));
  }
  const std::vector<std::string> categories = categories_of(ranks);
  ResultTable table(markdown);
  table.title(file);
  for (const TraceSummary& r : ranks) {
    Cells row{{"rank", "rank", r.rank},
              {"steps", "steps", r.steps},
              {"ms a step", "step_ms", r.step_ms, "{:.1f}"},
              {"", "ms", r.ms, ""}};
    for (const std::string& category : categories)
      if (const auto found = r.ms.find(category); found != r.ms.end())
        row.emplace_back(category, "", found->second, "{:.2f}");
    row.emplace_back("messages under way", "messages_ms", r.messages_ms, "{:.1f}");
    table.add(row);
  }
  if (json)
    fmt::print("{}\n", nlohmann::ordered_json{{"ranks", table.objects()}}.dump());
  else
    fmt::print("{}", table.text());
  return 0;
}

}  // namespace laconic
