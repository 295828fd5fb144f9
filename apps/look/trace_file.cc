#include "apps/look/trace_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "data/input_file.h"

namespace laconic {
namespace {

constexpr double kRounding = 0.0015;  // us; times are written to 1 ns

/// Sorts the spans, and finds for each the one around it.
void nest(std::vector<TraceFile::Span>& spans) {
  std::ranges::sort(spans, [](const TraceFile::Span& a, const TraceFile::Span& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  std::vector<int> open;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    while (!open.empty() && spans[static_cast<std::size_t>(open.back())].end <= spans[i].begin + kRounding)
      open.pop_back();
    if (!open.empty()) spans[i].around = open.back();
    open.push_back(static_cast<int>(i));
  }
}

/// Whether the span, or one that it lies in, is an evaluation.
bool in_evaluation(const TraceFile::Line& line, const TraceFile::Span& span) {
  for (const TraceFile::Span* s = &span;; s = &line.spans[static_cast<std::size_t>(s->around)]) {
    if (s->category == "evaluation") return true;
    if (s->around < 0) return false;
  }
}

}  // namespace

const TraceFile::Line* TraceFile::computing(int rank) const {
  const auto lines = ranks.find(rank);
  if (lines == ranks.end()) return nullptr;
  for (const auto& [number, line] : lines->second)
    if (line.name.starts_with("compute") && !line.spans.empty()) return &line;
  return nullptr;
}

TraceFile parse_trace(std::string_view text) {
  TraceFile trace;
  try {
    const auto json = json_from(text, "this");
    for (const auto& event : json.at("traceEvents")) {
      const int rank = whole_in<int>(event.at("pid")), number = whole_in<int>(event.at("tid"));
      TraceFile::Line& line = trace.ranks[rank][number];
      const auto& kind = event.at("ph").get_ref<const std::string&>();
      const auto& name = event.at("name").get_ref<const std::string&>();
      if (kind == "M") {
        if (name == "thread_name") line.name = event.at("args").at("name");
      } else if (kind == "X") {
        const double begin = event.at("ts"), length = event.at("dur");
        TraceFile::Span span{.name = name, .category = event.at("cat"), .begin = begin, .end = begin + length};
        if (const auto arguments = event.find("args"); arguments != event.end())
          if (arguments->contains("bytes")) span.bytes = whole_in<std::int64_t>(arguments->at("bytes"));
        line.spans.push_back(std::move(span));
      } else if (kind == "s" || kind == "t" || kind == "f") {
        auto& arrows = name == "message" ? trace.messages : trace.gradients;
        arrows[event.at("id")].push_back({rank, number, event.at("ts")});
      }
    }
  } catch (const nlohmann::json::exception&) {
    throw DataError("this is no trace: --trace writes them");
  }
  for (auto& [rank, lines] : trace.ranks)
    for (auto& [number, line] : lines) nest(line.spans);
  for (auto* arrows : {&trace.gradients, &trace.messages})
    for (auto& [id, points] : *arrows) std::ranges::stable_sort(points, {}, &TraceFile::Point::time);
  return trace;
}

TraceFile read_trace(const std::string& path) {
  const std::vector<std::byte> text = read_file(path);
  try {
    return parse_trace({reinterpret_cast<const char*>(text.data()), text.size()});
  } catch (const DataError& e) {
    throw DataError(concat(path, ": ", e.what()));
  }
}

std::vector<double> step_starts(const TraceFile::Line& computing) {
  std::vector<double> starts;
  const std::string* first = nullptr;
  for (const TraceFile::Span& span : computing.spans) {
    if (span.category != "forward" || in_evaluation(computing, span)) continue;
    if (!first) first = &span.name;
    if (span.name == *first) starts.push_back(span.begin);
  }
  return starts;
}

bool has_whole_step(const TraceFile& trace) {
  const TraceFile::Line* const computing = trace.computing(0);
  return computing != nullptr && step_starts(*computing).size() >= 2;
}

}  // namespace laconic
