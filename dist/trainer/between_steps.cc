// What a training does between steps and at its end: evaluation, checkpoints, its summary.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dist/collective/meeting.h"
#include "dist/trainer/trainer.h"
#include "dist/world.h"

namespace laconic {

/// Steps go on from here, after something else.
void Trainer::begin_steps() {
  figures_.restart_clock();
  if (s_.worker.rank == 0) memory_.begin();
}

void Trainer::end_epoch_or_period() {
  const std::int64_t end = s_.timetable.last_step(), epochs = s_.timetable.epochs_done(now_.step);
  const bool epoch_ends = s_.timetable.ends_epoch(now_.step);
  const auto ends = [&](const Every& every) {
    return every.in_steps ? now_.step % every.count == 0 : epoch_ends && epochs % every.count == 0;
  };
  const bool save_now = s_.o.save_every && ends(*s_.o.save_every);
  if (epoch_ends && s_.o.epoch_steps && now_.step < end) s_.start_data(epochs, 0);
  now_.evaluation_due = s_.o.eval_every > 0 && (now_.step == end || (epoch_ends && epochs % s_.o.eval_every == 0));
  evaluate_if_due();
  // Where nothing is joined no step tells the others that a part has been written.
  if (save_now && now_.step < end) s_.is.joins ? begin_save(true) : save();
  if (epoch_ends || save_now) begin_steps();
}

void Trainer::evaluate_if_due() {
  if (!now_.evaluation_due) return;
  const std::optional<EvalReport> report = evaluate(false, true);
  now_.evaluation_due = !report;
  if (report && s_.timetable.ends_epoch(now_.step)) s_.o.schedule.end_epoch(report->loss);
}

/// All steps are done. Returns false if a stop has left an evaluation out.
bool Trainer::evaluate_what_is_left() {
  if (s_.o.eval_every <= 0) return true;
  // A training that is resumed at its end has a result, too.
  if (!summary_.last_eval && !evaluate(false, true)) return false;
  // A stop may have come during this test, so a resumed training makes it even where nothing was left to train.
  return !s_.workload.has_test_for_the_end() || evaluate(true, true);
}

std::optional<EvalReport> Trainer::evaluate(bool at_the_end, bool may_stop) {
  if (at_the_end && !s_.workload.has_test_for_the_end()) return std::nullopt;
  flush();
  if (s_.worker.rank == 0) memory_.between_steps();  // an evaluation leaves weights in an order of its own
  finish_saving();                                   // no step would say for long that all parts are written
  if (may_stop && stopping()) return std::nullopt;   // who ends a run may kill it soon: it is to be saved first
  if (!s_.o.skip_nan) s_.require_finite_weights();
  const StepFigures::Outside outside(figures_);
  const dist::Busy busy(dist::Busy::With::work, "evaluates");
  const Trace::Span span("evaluation", "evaluation");
  if (spans_) spans_->draw(false);  // one span for all of it
  s_.servers->tell({.kind = dist::Command::Kind::rest});
  std::optional<EvalReport> report;
  {
    const EvaluatedModel model(s_);
    report = measured(at_the_end, may_stop);
    if (report) complete_and_tell(*report, at_the_end);
  }
  stopped_ |= !report;
  if (spans_) spans_->draw(true);
  if (s_.worker.rank == 0) memory_.between_steps();
  return report;
}

/// What the model as it is makes of the worker's share of a test set, added up over all workers: the same on every
/// worker. Nothing, on all of them, if a worker left its share for a stop.
/// throws DataError  nothing could be read
std::optional<EvalReport> Trainer::measured(bool at_the_end, bool may_stop) const {
  // No worker waits for another before all have ended, so each may leave its share when it hears of a stop.
  bool left = false;
  const Stop leaves = [&] { return left = left || (may_stop && s_.o.stop_requested && s_.o.stop_requested()); };
  Workload& workload = s_.workload;
  const std::optional<double> drift = s_.strategy->drift();
  EvalSums sums = at_the_end ? workload.evaluate_at_the_end(leaves) : workload.evaluate(leaves);
  std::vector<double> all{sums.samples,    sums.loss,        sums.wrong_top1,
                          sums.wrong_top5, left ? 1.0 : 0.0, drift.value_or(0)};
  const std::vector<std::string> names = workload.metrics();
  const std::size_t first_metric = all.size();
  sums.metrics.resize(names.size());
  all.insert(all.end(), sums.metrics.begin(), sums.metrics.end());
  sum_over_workers(s_.worker, "sum of the evaluation", all);
  if (all[4] > 0) return std::nullopt;
  RunInfo info;
  workload.describe(info);
  require<DataError>(all[0] > 0 || info.test_samples == 0, info.data,
                     ": nothing to evaluate by could be read (`data`). The warnings above say why.");
  const double n = std::max(1.0, all[0]);
  EvalReport report;
  report.samples = static_cast<std::int64_t>(all[0]);
  report.loss = all[1] / n;
  report.top1_error = 100 * all[2] / n;
  if (workload.measures_perplexity()) report.perplexity = std::exp(report.loss);
  if (workload.has_top5()) report.top5_error = 100 * all[3] / n;
  for (std::size_t i = 0; i < names.size(); ++i) report.metrics.emplace_back(names[i], all[first_metric + i] / n);
  if (drift) report.drift = all[5] / s_.worker.size;
  return report;
}

void Trainer::complete_and_tell(EvalReport& report, bool at_the_end) {
  require<Error>(s_.o.skip_nan || std::isfinite(report.loss), "evaluation: the loss is ",
                 std::isnan(report.loss) ? "not a number" : "infinite", " after step ", now_.step,
                 ". Lower `lr`, clip gradients (`clip` norm:5), or go on all the same (`on-nan` skip).");
  report.epoch = s_.timetable.epochs_begun(now_.step);
  report.seconds = seconds();
  report.bytes_sent_total = summary_.bytes_sent_total;
  report.bytes_counted = s_.bytes_counted();
  (at_the_end ? summary_.test : summary_.last_eval) = report;
  if (at_the_end) return observers_.on_test(report);
  observers_.on_eval(report);
  if (observers_.empty()) return;
  if (const auto rows = s_.strategy->ledger(); !rows.empty())
    observers_.on_ledger({.step = now_.step, .form = s_.method->ledger(), .rows = rows});
}

void Trainer::save() {
  if (s_.checkpoints->saved_step() != now_.step) begin_save(false);
  finish_saving();
}

void Trainer::begin_save(bool while_training) {
  flush();
  finish_saving();  // its copies go before there are others
  s_.require_finite_weights();
  const StepFigures::Outside outside(figures_);
  Manifest manifest{.step = now_.step,
                    .workers = s_.worker.size,
                    .threads = s_.o.threads,
                    .instruction_set = s_.processor(),
                    .fingerprint = s_.fingerprint,
                    .plan = s_.plan.json(),
                    .position = s_.timetable.position(now_.step),
                    .first_steps_per_epoch = s_.timetable.first_steps_per_epoch()};
  StateDict weights;
  {
    const EvaluatedModel model(s_);
    if (s_.worker.rank == 0) weights = copy_of(s_.weights());
  }
  s_.servers->tell({.kind = dist::Command::Kind::save, .step = now_.step});  // they take part in all the meetings
  now_.seconds = seconds();
  now_.bytes_sent = summary_.bytes_sent_total, now_.bytes_dense = summary_.bytes_dense_total;
  dist::RankState state = s_.state();
  if (s_.servers->half()) static_cast<StateDict&>(state).save("server/", *s_.servers->half());
  synchronize(s_.o.device);  // a thread with a stream of its own may read these
  s_.checkpoints->begin_write(while_training ? copy_of(state) : state, std::move(manifest), std::move(weights));
}

void Trainer::finish_saving() {
  if (!s_.checkpoints->unfinished()) return;
  const StepFigures::Outside outside(figures_);
  s_.servers->tell({.kind = dist::Command::Kind::saved});
  s_.checkpoints->finish();
}

void Trainer::complete_summary() {
  std::vector<double> network{static_cast<double>(s_.worker.engine.counters().sent.bytes - s_.bytes_before)};
  s_.servers->tell({.kind = dist::Command::Kind::total});
  s_.worker.engine.run("sum of all bytes",
                       [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(network)); });
  summary_.bytes_network_total = static_cast<std::int64_t>(network[0]);
  if (s_.worker.rank == 0) memory_.between_steps();  // there may have been no evaluation
  if (s_.is.joins && s_.o.joint_at_end) EvaluatedModel(s_).keep();
  s_.servers->tell({.kind = dist::Command::Kind::end});
  synchronize(s_.o.device);  // other threads may read the model now
  if (memory_.peak_bytes() > 0) {
    const int here = dist::ranks_under_mpirun() > 0 ? 1 : s_.worker.size;
    summary_.memory_bytes_peak = static_cast<std::int64_t>(memory_.peak_bytes());
    summary_.activation_bytes_peak = static_cast<std::int64_t>(memory_.activation_bytes()) / here;
  }
  summary_.ledger = s_.strategy->ledger(), summary_.ledger_form = s_.method->ledger();
  summary_.steps = now_.step;
  summary_.seconds = seconds();
  figures_.summarise();
}

void Trainer::tell_of_a_long_warm_up() const {
  const Timetable& t = s_.timetable;
  const double warmup = s_.o.schedule.warmup(t.horizon()) - static_cast<double>(t.steps_ahead());
  const std::int64_t last = t.last_step();
  if (s_.worker.rank == 0 && now_.step < last && warmup > static_cast<double>(last))
    fmt::print(stderr,
               "laconic: warning: the warm-up ends with step {:.0f} and the training with step {}, where the learning "
               "rate is {:.3g} instead of {:.3g}\n",
               std::ceil(warmup), last, t.rate_at(last), s_.o.lr);
}

}  // namespace laconic
