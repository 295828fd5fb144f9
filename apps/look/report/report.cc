#include "apps/look/report/report.h"

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <numeric>

#include "apps/look/report/figures.h"
#include "apps/look/trace_file.h"
#include "apps/report_page_source.h"
#include "core/base/atomic_file.h"
#include "core/base/clock.h"
#include "core/base/error.h"

namespace laconic {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostSpans = 40'000;

/// Steps 3 and 4, or the last two, of all ranks and threads: the exchange of a step's gradients may begin as late as in
/// the next step's forward. Times are in ms.
Json timeline_of(const TraceFile& trace, const std::string& path) {
  const TraceFile::Line* const computing = trace.computing(0);
  require<DataError>(computing, path, ": rank 0 has not computed in this trace. Name a file that --trace has written.");
  const std::vector<double> starts = step_starts(*computing);
  require<DataError>(starts.size() >= 2, path, ": there is no whole step in this trace. Train some.");
  const std::size_t whole = starts.size() - 1,
                    first = std::min<std::size_t>(3, std::max<std::size_t>(whole, 2) - 1) - 1;
  const double begin = starts[first], end = starts[std::min(first + 2, whole)];
  const auto ms = [&](double time) { return std::round((time - begin) * 10) / 1e4; };
  Json rows = Json::array();
  std::map<std::pair<int, int>, int> row_of;
  std::size_t spans = 0;
  for (const auto& [rank, lines] : trace.ranks)
    for (const auto& [number, line] : lines) {
      Json row = {{"name", concat("rank ", rank, " ", line.name)},
                  {"short", concat(rank, " ", line.name.substr(0, 7))},
                  {"spans", Json::array()}};
      for (const TraceFile::Span& s : line.spans) {
        if (s.end < begin || s.begin > end || spans++ > kMostSpans) continue;
        int depth = 0;
        for (int i = s.around; i >= 0; i = line.spans[static_cast<std::size_t>(i)].around) ++depth;
        row["spans"].push_back(Json::array({ms(s.begin), ms(s.end), s.category, s.name, s.bytes, depth}));
      }
      if (row["spans"].empty()) continue;
      row_of[{rank, number}] = static_cast<int>(rows.size());
      rows.push_back(std::move(row));
    }
  Json arrows = Json::array();
  for (const auto* paths : {&trace.gradients, &trace.messages})
    for (const auto& [id, points] : *paths) {
      Json arrow = Json::array();
      bool inside = false;
      for (const TraceFile::Point& p : points) {
        const auto row = row_of.find({p.rank, p.line});
        if (row == row_of.end()) continue;
        inside |= p.time >= begin && p.time <= end;
        arrow.push_back(Json::array({row->second, ms(p.time)}));
      }
      if (inside && arrow.size() >= 2 && spans++ <= kMostSpans) arrows.push_back(std::move(arrow));
    }
  return {{"begin", 0}, {"end", ms(end)}, {"rows", std::move(rows)}, {"arrows", std::move(arrows)}};
}

RunFigures figures_of(const std::string& title, const std::string& path) {
  RunFigures run{.title = title, .log = LogFile::read(path)};
  require<DataError>(!run.log.steps.empty(), path, " has no steps: let the training run for some.");
  return run;
}

/// Gives each step the mean time of its epoch's steps on the network, the first of an epoch left out.
void take_times(const std::vector<std::string>& logs, RunFigures& run) {
  struct Sum {
    double ms = 0, count = 0;
  };
  std::map<double, Sum> of_epoch;
  for (const std::string& path : logs) {
    const std::vector<LoggedStep> steps = figures_of("", path).log.steps;
    for (std::size_t i = 1; i < steps.size(); ++i) {
      if (steps[i].epoch != steps[i - 1].epoch) continue;
      run.timed.push_back(steps[i]);
      Sum& sum = of_epoch[steps[i].epoch];
      sum.ms += steps[i].step_ms, ++sum.count;
    }
  }
  for (LoggedStep& step : run.log.steps) {
    const Sum sum = of_epoch[step.epoch];
    step.step_ms = sum.ms / sum.count;  // NaN where nothing was timed
  }
}

/// Puts means over seeds in the place of one run's losses.
void take_mean_losses(const std::vector<RunFigures>& seeds, RunFigures& run) {
  for (std::size_t i = 0; i < run.log.steps.size(); ++i) {
    double sum = run.log.steps[i].loss, count = 1;
    for (const RunFigures& other : seeds)
      if (i < other.log.steps.size()) sum += other.log.steps[i].loss, ++count;
    run.log.steps[i].loss = sum / count;
  }
}

/// Puts means over seeds in the place of one run's evaluations, the lowest and the highest beside them.
void take_mean_evals(const std::vector<RunFigures>& seeds, Json& evals) {
  const auto take = [&](const char* figure, const char* lowest, const char* highest, const auto& of) {
    Json& values = evals[figure];
    Json low = values, high = values;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::vector<double> of_all;
      if (values[i].is_number()) of_all.push_back(values[i].get<double>());
      for (const RunFigures& other : seeds)
        if (i < other.log.evals.size())
          if (const Json value = of(other.log.evals[i].second); value.is_number()) of_all.push_back(value.get<double>());
      if (of_all.empty()) continue;
      low[i] = std::ranges::min(of_all), high[i] = std::ranges::max(of_all);
      values[i] = std::accumulate(of_all.begin(), of_all.end(), 0.0) / static_cast<double>(of_all.size());
    }
    evals[lowest] = std::move(low), evals[highest] = std::move(high);
  };
  take("value", "low", "high", [](const nlohmann::json& eval) { return quality_of(eval).value; });
  take("loss", "loss_low", "loss_high", [](const nlohmann::json& eval) { return number_or_null(eval, "loss"); });
}

Json object(const ReportedRun& run) {
  RunFigures figures = figures_of(run.title, run.log);
  std::vector<RunFigures> seeds;
  for (const std::string& path : run.seeds) seeds.push_back(figures_of("", path));
  if (!run.timed.empty()) take_times(run.timed, figures);
  take_mean_losses(seeds, figures);
  Json all = drawn(figures);
  if (!seeds.empty()) {
    take_mean_evals(seeds, all["evals"]);
    all["seeds"] = 1 + seeds.size();
  }
  if (!run.timed.empty()) all["timed_apart"] = true;
  if (run.step_ms) all["step_ms"] = {run.step_ms->value, run.step_ms->low, run.step_ms->high};
  if (run.ratio) all["ratio"] = {run.ratio->value, run.ratio->low, run.ratio->high};
  if (run.target) all["target"] = *run.target;
  for (const auto& [column, cell] : run.further) all["further"][column] = cell;
  if (!run.trace.empty()) all["timeline"] = timeline_of(read_trace(run.trace), run.trace);
  return all;
}

/// The page of these runs, one line of HTML after another.   live : seconds until it is written anew; 0: it is not
std::string page_of(const std::vector<ReportedRun>& runs, double live) {
  Json all = Json::array();
  for (const ReportedRun& run : runs) all.push_back(object(run));
  std::string data = all.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (std::size_t i = 0; (i = data.find('<', i)) != std::string::npos;) data.replace(i, 1, "\\u003c");  // no </script>
  std::string page = kReportPageSource;
  for (const auto& [place, text] : {std::pair<std::string, std::string>{"/*RUNS*/", data}, {"/*LIVE*/", concat(live)}})
    page.replace(page.find(place), place.size(), text);
  return page;
}

void write_page(const std::string& page, const std::string& path) {
  AtomicFile file(path);
  file.write(page);
  file.commit();
}

}  // namespace

std::string report_page(const std::vector<ReportedRun>& runs) { return page_of(runs, 0); }

void write_report(const std::vector<ReportedRun>& runs, const std::string& path) { write_page(page_of(runs, 0), path); }

LivePage::LivePage(const ReportedRun& run, const std::string& path, double seconds) {
  std::error_code no_matter;  // until its first line the log may hold an earlier training
  const auto untouched = std::filesystem::last_write_time(run.log, no_matter);
  const auto write_again_and_again = [=](const std::stop_token& stop) {
    ::setpriority(PRIO_PROCESS, 0, 19);  // of this thread
    std::mutex mutex;
    std::condition_variable_any woken;
    for (double pause = seconds;;) {
      std::unique_lock lock(mutex);
      woken.wait_for(lock, stop, std::chrono::duration<double>(pause), [] { return false; });
      const bool ended = stop.stop_requested();  // by an error too: then no other page comes after this one
      const auto begin = Clock::now();
      try {
        if (std::filesystem::last_write_time(run.log) != untouched) write_page(page_of({run}, ended ? 0 : seconds), path);
      } catch (const std::exception&) {  // no step was made yet; what is wrong with the file is told at the end
      }
      if (ended) return;
      pause = std::max(seconds, 20 * seconds_since(begin));
    }
  };
  sigset_t all, before;  // signals are the training's
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread(write_again_and_again);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace laconic
