#include "dist/trainer/step_figures.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/trace.h"
#include "dist/collective/meeting.h"
#include "dist/trainer/evaluation.h"

namespace laconic {

void StepFigures::abandon() {
  if (std::exchange(any_, false)) worker_.engine.halt();
}

void StepFigures::count_from_now(const dist::Costs& costs) {
  costs_ = costs;
  counted_ = worker_.engine.counters();
  counted_cpu_ = process_cpu_seconds();
}

void StepFigures::close(const Step& s) {
  finish();  // of the step before: its figures have had a whole step to arrive
  const double seconds = seconds_since(step_start_);
  restart_clock();
  const dist::EngineCounters now = worker_.engine.counters();
  const dist::Costs before = std::exchange(costs_, s.costs);
  StepReport& r = report_ = s.report;
  r.step_ms = 1e3 * seconds;
  r.samples_per_s = static_cast<double>(s.samples) / seconds;
  r.bytes_sent = static_cast<std::int64_t>(now.sent.bytes - counted_.sent.bytes);
  r.select_ms = 1e3 * (s.costs.select_seconds - before.select_seconds);
  r.comm_ms = 1e3 * (now.comm_seconds - counted_.comm_seconds);
  r.exposed_ms = 1e3 * (now.exposed_seconds - exposed_before_);
  r.update_ms = 1e3 * (s.costs.update_seconds - before.update_seconds);
  summary_.buffer_bytes_peak = static_cast<std::int64_t>(now.peak_buffer_bytes + s.costs.buffer_bytes);
  const double sending_ms = 1e3 * (now.sending_seconds - counted_.sending_seconds);
  counted_ = now;
  const double cpu = process_cpu_seconds();
  seconds_ += seconds;
  exposed_seconds_ += r.exposed_ms / 1e3;
  data_seconds_ += r.data_ms / 1e3;
  samples_ += static_cast<double>(s.samples);

  shared_.sums.assign(kFigures, 0.0);
  std::vector<double>& sums = shared_.sums;
  sums[kLoss] = s.loss_sum;
  sums[kSamples] = static_cast<double>(s.own_samples);
  sums[kBytes] = static_cast<double>(r.bytes_sent);
  sums[kUp] = static_cast<double>(s.costs.bytes_up - before.bytes_up);
  sums[kDown] = static_cast<double>(s.costs.bytes_down - before.bytes_down);
  sums[kCpuSeconds] = cpu - std::exchange(counted_cpu_, cpu);
  sums[kStop] = s.stop_requested ? 1 : 0;
  sums[kSkipped] = s.skipped ? 1 : 0;
  sums[kComputeMs] = r.forward_ms + r.backward_ms + r.select_ms + r.update_ms;
  sums[kDataMs] = r.data_ms, sums[kExposedMs] = r.exposed_ms, sums[kSendingMs] = sending_ms;
  shared_.set_file(s.file);
  report_seconds_ = seconds;
}

std::vector<FileSum> SharedFigures::files() const {
  std::vector<FileSum> files;
  for (const std::vector<double>& row : all)
    if (row[kFileBytes] > 0)
      files.push_back({static_cast<std::uint64_t>(row[kFileBytes]), static_cast<std::uint32_t>(row[kFileCrc])});
  if (files.size() != all.size()) files.clear();
  return files;
}

dist::Ticket submit_figures(dist::Engine& engine, int slot, SharedFigures& figures) {
  return engine.submit(
      {.name = "figures of a step", .slot = slot, .priority = 1 << 30, .body = [&figures](dist::Communicator& comm) {
         return dist::sum_over_ranks(comm, slice(figures.sums), figures.all);
       }});
}

void StepFigures::send() {
  any_ = true;
  if (is_.joins)
    ticket_ = submit_figures(worker_.engine, slot_, shared_);
  else if (worker_.size > 1)
    meet();
}

/// No figures go from worker to worker where nothing is joined. So that all hear of a stop after the same step, and
/// soon, they meet about once a second, and agree on the step of their next meeting.
void StepFigures::meet() {
  since_meeting_ += report_seconds_;
  if (--steps_to_meeting_ > 0) return;
  const Outside outside(*this);
  std::vector<double> sums{shared_.sums[kStop], std::exchange(since_meeting_, 0)};
  sum_over_workers(worker_, "whether to stop", sums);
  stop_ |= sums[0] > 0;
  steps_between_ = sums[1] < worker_.size ? 2 * steps_between_ : std::max<std::int64_t>(1, steps_between_ / 2);
  steps_to_meeting_ = steps_between_;
  restart_clock();
}

void StepFigures::finish() {
  if (!any_) return;
  worker_.engine.wait(std::exchange(ticket_, {}));
  if (Trace::Row* row = Trace::current()) row->forget_arrows();
  any_ = false;
  StepReport& r = report_;
  const std::vector<double>& sums = shared_.sums;
  files_ = is_.joins ? shared_.files() : std::vector<FileSum>(), files_at_ = r.step;
  r.loss = sums[kSamples] > 0 ? sums[kLoss] / sums[kSamples] : 0;
  if (sums[kSkipped] > 0) r.loss = std::numeric_limits<double>::quiet_NaN();
  r.bytes_sent_sum = static_cast<std::int64_t>(sums[kBytes]);
  if (sums[kStop] > 0 && (is_.joins || worker_.size == 1)) stop_ = true;  // else they meet
  if (is_.servers) {
    r.bytes_up_sum = static_cast<std::int64_t>(sums[kUp]);
    r.bytes_down_sum = static_cast<std::int64_t>(sums[kDown]);
    summary_.bytes_up_total = summary_.bytes_up_total.value_or(0) + *r.bytes_up_sum;
    summary_.bytes_down_total = summary_.bytes_down_total.value_or(0) + *r.bytes_down_sum;
  }
  if (dist::ranks_under_mpirun() > 0) {
    r.cpu_ms = 1e3 * sums[kCpuSeconds] / (is_.joins ? worker_.size : 1);
    if (worker_.servers() > 0) r.server_cpu_ms = 1e3 * sums[kServerCpuSeconds] / worker_.servers();
  }
  summary_.bytes_sent_total += r.bytes_sent_sum;
  summary_.bytes_dense_total += r.bytes_dense * worker_.size;
  observers_.on_step(r);
  count_ranks();
}

void StepFigures::extend(Clock::time_point since, double exposed_before) {
  if (!any_) return;
  const dist::EngineCounters now = worker_.engine.counters();
  const double extra = seconds_since(since), exposed = now.exposed_seconds - exposed_before;
  report_.step_ms += 1e3 * extra;
  report_.samples_per_s /= 1 + extra / report_seconds_;
  report_.exposed_ms += 1e3 * exposed;
  report_.comm_ms += 1e3 * (now.comm_seconds - std::exchange(counted_.comm_seconds, now.comm_seconds));
  report_seconds_ += extra;
  seconds_ += extra;
  exposed_seconds_ += exposed;
}

/// The first step does not count: kernels are prepared in it, on each rank as long as it takes.
void StepFigures::count_ranks() {
  if (worker_.rank != 0 || !is_.joins || worker_.size == 1 || std::exchange(any_ranks_, true) == false) return;
  RanksReport one{.step = report_.step, .steps = 1};
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(worker_.size); ++rank) {
    const std::vector<double>& row = shared_.all[rank];
    one.compute_ms.push_back(row[kComputeMs]), one.data_ms.push_back(row[kDataMs]);
    one.exposed_ms.push_back(row[kExposedMs]), one.sending_ms.push_back(row[kSendingMs]);
    one.bytes_sent.push_back(row[kBytes]);
  }
  ranks_ = joined(ranks_, one), all_ranks_ = joined(all_ranks_, one);
  if (ranks_.steps == kStepsOfRanks) tell_of_ranks();
}

void StepFigures::tell_of_ranks() {
  if (ranks_.steps > 0) observers_.on_ranks(ranks_);
  ranks_ = {};
}

void StepFigures::summarise() {
  tell_of_ranks();
  summary_.straggler = straggler_in(all_ranks_);
  summary_.samples_per_s = seconds_ > 0 ? samples_ / seconds_ : 0;
  summary_.exposed_share = seconds_ > 0 ? exposed_seconds_ / seconds_ : 0;
  summary_.data_share = seconds_ > 0 ? data_seconds_ / seconds_ : 0;
}

StepFigures::Outside::Outside(StepFigures& figures)
    : figures_(figures), begin_(figures.worker_.engine.counters()), cpu_(process_cpu_seconds()) {}

StepFigures::Outside::~Outside() {
  const dist::EngineCounters end = figures_.worker_.engine.counters();
  figures_.counted_.sent.bytes += end.sent.bytes - begin_.sent.bytes;
  figures_.counted_.comm_seconds += end.comm_seconds - begin_.comm_seconds;
  figures_.counted_.sending_seconds += end.sending_seconds - begin_.sending_seconds;
  figures_.counted_cpu_ += process_cpu_seconds() - cpu_;
}

}  // namespace laconic
