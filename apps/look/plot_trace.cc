#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <unordered_map>

#include "apps/common/subcommand.h"
#include "apps/look/svg.h"
#include "apps/common/text.h"
#include "apps/common/tools.h"
#include "apps/look/trace_file.h"
#include "core/base/atomic_file.h"
#include "core/base/error.h"

namespace laconic {
namespace {

// The picture's layout in pixels: the names of rows stand at the left, times in the rest.
constexpr double kLeft = 110, kWidth = 1100, kHeight = 22, kGap = 10;

struct Kind {
  const char *category, *words, *colour;
};
constexpr Kind kKinds[] = {
    {"forward", "forward", "#4c8dd6"},
    {"backward", "backward", "#2c5f9e"},
    {"update", "update", "#58a55c"},
    {"wait", "waiting for a message", "#e2574c"},
    {"message", "message on its way", "#f2b134"},
    {"evaluation", "evaluation", "#9b8ec4"},
    {"select", "selection", "#8d6e63"},
};

const Kind* kind_of(const std::string& category) {
  const auto found = std::ranges::find_if(kKinds, [&](const Kind& k) { return k.category == category; });
  return found == std::end(kKinds) ? nullptr : found;
}

/// From where a message was handed to the network to where it came.
struct Message {
  double begin, end;
  int from, to;
  const TraceFile::Span* exchange;  ///< that it is part of, on the rank whose picture it is in
  std::int64_t bytes;
};

/// Those of one exchange, as one rank has recorded it.
using Messages = std::unordered_map<const TraceFile::Span*, std::vector<Message>>;

/// Sets first what `rank` has sent, then what has come to it.
std::pair<Messages, Messages> messages_of(const TraceFile& trace, int rank) {
  Messages sent, came;
  for (const auto& [id, points] : trace.messages) {
    const TraceFile::Point &here = points.front(), &there = points.back();
    const auto *leaves = trace.at(here, "message"), *arrives = trace.at(there, "message");
    if (points.size() < 2 || !leaves || !arrives) continue;  // the other end is not in the trace
    const auto* hop = trace.at(there, "hop");
    Message m{here.time, there.time, here.rank, there.rank, leaves, hop ? hop->bytes : -1};
    if (m.from == rank) sent[leaves].push_back(m);
    m.exchange = arrives;
    if (m.to == rank) came[arrives].push_back(m);
  }
  return {std::move(sent), std::move(came)};
}

/// Messages of one exchange that follow each other within `gap` as one bar.
std::vector<Message> joined(const Messages& messages, double gap) {
  std::vector<Message> sorted, bars;
  for (const auto& [exchange, of] : messages) sorted.insert(sorted.end(), of.begin(), of.end());
  std::ranges::sort(sorted, {}, &Message::begin);
  for (const Message& m : sorted) {
    Message* const last = bars.empty() ? nullptr : &bars.back();
    if (last && last->exchange == m.exchange && m.begin <= last->end + gap) {
      last->end = std::max(last->end, m.end);
      if (m.bytes >= 0) last->bytes = std::max<std::int64_t>(last->bytes, 0) + m.bytes;
    } else {
      bars.push_back(m);
    }
  }
  // The network takes up the next one while the last of the one before arrives.
  for (std::size_t i = 1; i < bars.size(); ++i) bars[i - 1].end = std::min(bars[i - 1].end, bars[i].begin);
  return bars;
}

std::string without(std::string text, const std::string& part, const std::string& instead = "") {
  if (const auto at = text.find(part); at != std::string::npos) text.replace(at, part.size(), instead);
  return text;
}

/// What one trace is drawn by.
struct Drawn {
  TraceFile trace;
  std::string path, title;
  double begin, span;  // us
};

class Drawing {
 public:
  Drawing(Svg& svg, const Drawn& drawn, double longest) : svg_(svg), d_(drawn), scale_(kWidth / longest) {
    end_ = d_.begin + longest;
  }

  void draw(const std::vector<int>& ranks) {
    svg_.text(8, svg_.y + 12, d_.title, 13, "start", "#222", "bold");
    svg_.y += 22;
    const double top = svg_.y;
    for (const int rank : ranks) {
      const TraceFile::Line* const computing = d_.trace.computing(rank);
      require<UsageError>(computing, "there is no rank ", rank, " that computes in ", d_.path,
                          " (--ranks): name others");
      const auto [sent, came] = messages_of(d_.trace, rank);
      row(concat("rank ", rank, " computes"));
      const double computes = svg_.y;
      for (const TraceFile::Span& s : computing->spans) span(*computing, s);
      svg_.y += kHeight + kGap;
      row(concat("rank ", rank, " sends"));
      const double sends = svg_.y;
      for (const Message& m : joined(sent, 1 / scale_))
        bar(m.begin, m.end, 0, "message", m.exchange->name, m.bytes, without(m.exchange->name, "allreduce "));
      svg_.y += kHeight + 3 * kGap;
      if (rank == ranks.front()) arrows(rank, sent, came, computes, sends);
    }
    for (const double start : step_starts(*d_.trace.computing(ranks.front())))
      if (d_.begin <= start && start <= end_)
        svg_.add(R"(<line x1="{0:.1f}" x2="{0:.1f}" y1="{1}" y2="{2}" stroke="#000" stroke-dasharray="3 3"/>)",
                 x_of(start), top - 4, svg_.y);
    ticks();
  }

 private:
  double x_of(double time) const { return kLeft + (std::clamp(time, d_.begin, end_) - d_.begin) * scale_; }

  void row(const std::string& name) {
    svg_.text(kLeft - 6, svg_.y + 15, name, 11, "end");
    svg_.add(R"(<rect x="{}" y="{}" width="{}" height="{}" fill="#f3f3f3"/>)", kLeft, svg_.y, kWidth, kHeight);
  }

  void span(const TraceFile::Line& line, const TraceFile::Span& s) {
    int depth = 0;
    for (int i = s.around; i >= 0; i = line.spans[static_cast<std::size_t>(i)].around) ++depth;
    const bool named = depth == 0 || s.category == "wait";
    bar(s.begin, s.end, 5 * std::min(depth, 2), s.category, s.name, s.bytes,
        named ? without(s.name, "waits for allreduce ") : "");
  }

  void bar(double begin, double end, int inset, const std::string& category, const std::string& name,
           std::int64_t bytes, const std::string& label) {
    const double x = x_of(begin), width = x_of(end) - x;
    if (begin >= end_ || end <= d_.begin || width < 0.4) return;
    const Kind* const kind = kind_of(category);
    svg_.bar(x, svg_.y + inset, width, kHeight - inset, kind ? kind->colour : "#aaa",
             fmt::format("{}: {:.2f} ms{}", name, (end - begin) / 1e3,
                         bytes < 0 ? "" : ", " + human_bytes(static_cast<double>(bytes))));
    const std::string shown = without(without(without(label, ".weight"), "classifier.", "fc "), "features.", "conv ");
    if (!shown.empty() && width > 5.6 * static_cast<double>(shown.size()) + 4)
      svg_.text(x + 2, svg_.y + 14, shown, 9, "start", category == "message" ? "#422" : "#fff");
  }

  /// From each backward to the first message of its gradients, and from the last that came to the update.
  void arrows(int rank, const Messages& sent, const Messages& came, double computes, double sends) {
    for (const auto& [id, points] : d_.trace.gradients) {
      if (points.front().rank != rank) continue;
      const TraceFile::Span* exchange = nullptr;
      std::optional<double> update;
      for (const TraceFile::Point& p : points) {
        if (!exchange) exchange = d_.trace.at(p, "message");
        const auto* const inside = d_.trace.at(p);
        if (!update && inside && inside->category == "update") update = p.time;
      }
      if (!exchange) continue;
      if (const auto first = sent.find(exchange); first != sent.end())
        line(points.front().time, std::ranges::min(first->second, {}, &Message::begin).begin, computes + kHeight, sends,
             "#2c5f9e");
      if (const auto last = came.find(exchange); last != came.end() && update)
        line(std::ranges::max(last->second, {}, &Message::end).end, *update, sends, computes + kHeight, "#2e7d32");
    }
  }

  void line(double from, double to, double y1, double y2, const char* colour) {
    if (from < d_.begin || to < d_.begin || from >= end_ || to >= end_) return;
    svg_.add(R"(<path d="M{:.1f} {} L{:.1f} {}" stroke="{}" stroke-width="1"/>)", x_of(from), y1, x_of(to), y2, colour);
  }

  void ticks() {
    const double ms = (end_ - d_.begin) / 1e3;
    double tick = 1e-3;
    for (int i = 0; ms / tick > 12; ++i) tick *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10, ...
    for (int i = 0; i * tick <= ms; ++i)
      svg_.text(x_of(d_.begin + 1e3 * i * tick), svg_.y + 6, fmt::format("{:.4g} ms", i * tick), 9, "middle", "#666");
    svg_.y += 24;
  }

  Svg& svg_;
  const Drawn& d_;
  const double scale_;
  double end_;
};

void legend(Svg& svg, const std::vector<Drawn>& all) {
  std::set<std::string> there;
  for (const Drawn& d : all)
    for (const auto& [rank, lines] : d.trace.ranks)
      for (const auto& [number, line] : lines)
        for (const TraceFile::Span& s : line.spans) there.insert(s.category);
  double x = kLeft;
  for (const Kind& k : kKinds) {
    if (!there.contains(k.category) || k.category == std::string("evaluation")) continue;
    svg.bar(x, svg.y, 12, 12, k.colour, k.words);
    svg.text(x + 16, svg.y + 10, k.words);
    x += 34 + 6.2 * static_cast<double>(std::string(k.words).size());
  }
  svg.y += 26;
}

int plot_trace(const std::vector<std::string>& arguments) {
  std::vector<std::string> files;
  std::string output, steps;
  std::vector<int> ranks = {0, 1};
  CLI::App app(
      "Draws steps of a training: what each rank computed, and its messages from where they were "
      "handed to the network to where they came. Blue lines lead from the backward that finished "
      "gradients to their first message, green ones from the last message to the update. Several "
      "traces stand below one another, at one scale of time.",
      "laconic plot trace");
  app.add_option("files", files, "what --trace has written; TITLE= before it stands above it")
      ->required()
      ->type_name("[TITLE=]FILE...");
  app.add_option("-o,--output", output, "the picture, an SVG that every browser shows")->required()->type_name("FILE");
  app.add_option("--steps", steps, "the first and the last to draw, from 1 [3:4, or what there is]")->type_name("A:B");
  app.add_option("--ranks", ranks, "whose [0,1]")->delimiter(',')->type_name("R,R..");
  if (const auto done = parse_tool(app, arguments)) return *done;

  std::vector<Drawn> all;
  double longest = 0;
  for (const std::string& argument : files) {
    const auto [title, path] = title_and_file(argument);
    Drawn d{.trace = read_trace(path), .path = path, .title = "", .begin = 0, .span = 0};
    const TraceFile::Line* const computing = d.trace.computing(0);
    require<DataError>(computing, path,
                       ": rank 0 has not computed in this trace. Name a file that --trace has written.");
    const std::vector<double> starts = step_starts(*computing);
    const auto there = static_cast<std::int64_t>(starts.size()) - 1;  // the last one's end is not known
    require<DataError>(there >= 1, path, ": there is no whole step in this trace. Train some.");
    const auto [first, last] = steps.empty()
                                   ? std::pair{std::min<std::int64_t>(3, there), std::min<std::int64_t>(4, there)}
                                   : step_range(steps, "--steps");
    require<UsageError>(last <= there, path, " has the steps 1 to ", there, " (--steps): draw some of these");
    d.begin = starts[static_cast<std::size_t>(first - 1)];
    d.span = starts[static_cast<std::size_t>(last)] - d.begin;
    d.title = fmt::format("{}{:.4g} ms a step", title.empty() ? "" : title + ": ",
                          d.span / 1e3 / static_cast<double>(last - first + 1));
    longest = std::max(longest, d.span * 1.03);  // the beginning of the step after
    all.push_back(std::move(d));
  }
  if (app.get_option("--ranks")->empty())
    std::erase_if(ranks, [&](int rank) { return rank > 0 && !all[0].trace.computing(rank); });

  Svg svg(kLeft + kWidth + 20);
  legend(svg, all);
  for (const Drawn& d : all) Drawing(svg, d, longest).draw(ranks);
  AtomicFile file(output);
  file.write(svg.whole());
  file.commit();
  return 0;
}

constexpr Subcommand kPlots[] = {{"trace", "what ran when in some steps of a training, as a picture", plot_trace}};

}  // namespace

int plot(const std::vector<std::string>& arguments) { return run_subcommand("laconic plot", kPlots, arguments); }

}  // namespace laconic
