#include "dist/trainer/trainer.h"

#include <cmath>

#include "dist/collective/ring_allreduce.h"

namespace laconic {

Trainer::Trainer(dist::Worker& worker, Workload& workload, std::shared_ptr<const dist::Method> method,
                 const TrainerOptions& options, Observer* observer)
    : s_(worker, workload, std::move(method), options),
      now_(s_.now),
      figures_(s_.worker, s_.is, summary_, observers_),
      losses_(s_.o.device),
      memory_(s_.o.device),
      seconds_before_(now_.seconds) {
  if (worker.rank == 0 && observer != nullptr) observers_.add({observer, [](Observer*) {}});
  summary_.bytes_sent_total = now_.bytes_sent, summary_.bytes_dense_total = now_.bytes_dense;
  figures_.count_from_now(s_.strategy->costs());
}

RunSummary Trainer::run() {
  const TrainerOptions& o = s_.o;
  const std::int64_t end = s_.timetable.last_step();
  std::optional<Trace::Thread> traced;
  if (o.trace) {
    traced.emplace(o.trace->row(s_.worker.rank, "compute"));
    spans_.emplace(s_.workload.model());
  }
  tell_of_a_long_warm_up();
  s_.checkpoints->begin();
  observers_.on_start(s_.info());
  if (now_.step < end) s_.start_data();
  run_start_ = Clock::now();
  evaluate_if_due();  // a stop has put it off
  begin_steps();
  while (now_.step < end && !stopping()) {
    if (o.trace && o.trace_steps)
      o.trace->record(s_.worker.rank, now_.step + 1 >= o.trace_steps->first && now_.step <= o.trace_steps->second);
    train_step();
    end_epoch_or_period();
  }
  flush();
  if (s_.checkpoints->saves()) save();
  const bool complete = now_.step >= end && !now_.evaluation_due && evaluate_what_is_left();
  if (!complete) summary_.stopped = "interrupted";
  complete_summary();
  s_.checkpoints->end();
  observers_.on_end(summary_);
  spans_.reset();
  return summary_;
}

/// The micro-batches of the next step, and how their samples are spread.
struct Trainer::Batches {
  std::int64_t epoch = 0, count = 0;
  std::int64_t samples = 0, own = 0;  ///< of all workers, and of this one
  dist::StepSamples spread{.each = 0};
};

Trainer::Batches Trainer::batches_of_step() const {
  Batches b{.epoch = s_.timetable.epochs_done(now_.step)};
  const std::int64_t first = s_.timetable.batch_at(now_.step);
  b.count = std::min(s_.o.accumulate, s_.timetable.batches_in(b.epoch) - first);
  for (std::int64_t m = 0; m < b.count; ++m) {
    const Share share = s_.workload.share(b.epoch, first + m);
    b.samples += share.global_samples, b.own += share.samples;
    if (share.global_samples == s_.worker.size * share.each)
      b.spread.each += share.each;
    else
      b.spread.rest = share.global_samples, b.spread.batch = share.each;  // the last of an epoch
  }
  require<Error>(b.own == b.spread.of(s_.worker.rank), "training: worker ", s_.worker.rank, " has ", b.own,
                 " samples of step ", now_.step + 1, ", and ", b.spread.of(s_.worker.rank),
                 " by its place. Let Workload::share() say Share::each.");
  return b;
}

void Trainer::train_step() {
  const Batches batches = batches_of_step();
  // n_k N / n: the mean over the global batch, however unevenly a short batch is spread (workers add up, then / N).
  // Computing alone, each worker follows the mean over its own samples.
  const auto weight_of = [&](std::int64_t samples) {
    return s_.is.joins ? dist::weight_of(samples, batches.samples, s_.worker.size)
                       : static_cast<double>(samples) / static_cast<double>(batches.own);
  };
  std::optional<KeptBuffers> before;
  if (s_.o.skip_nan) before.emplace(s_.workload.model());
  StepFigures::Step step;
  begin_step(batches, weight_of(batches.own), step);
  for (std::int64_t m = 0; m < batches.count; ++m) {
    const Share share = load_data(step);
    if (step.skipped) continue;  // the data goes on
    if (train_micro_batch(share, weight_of(share.samples), m + 1 == batches.count, step)) continue;
    step.skipped = true;
    before->put_back();
    s_.workload.pass_over();
  }
  if (s_.worker.rank == 0) memory_.after_step();
  losses_.read([&](float loss, std::int64_t samples) {  // before any update that waits for the end of the step
    if (!std::isfinite(loss)) s_.report_non_finite(loss);
    step.loss_sum += static_cast<double>(loss) * static_cast<double>(samples);
  });
  if (s_.probes) s_.probes->require_finite();
  if (s_.updates->waits_for_all() && !step.skipped) {
    s_.strategy->flush();
    s_.updates->apply_all();
  }
  s_.strategy->end_step();
  if (now_.step + 1 == s_.timetable.last_step()) s_.strategy->flush();  // its messages belong to it: no step follows
  ++now_.step;
  now_.passed_over += step.skipped ? 1 : 0;
  if (!step.skipped) now_.samples.own += batches.own, now_.samples.all += batches.samples;
  end_step(step);
  if (s_.o.audit_every > 0 && now_.step % s_.o.audit_every == 0) s_.audit();
}

void Trainer::begin_step(const Batches& batches, double weight, StepFigures::Step& step) {
  const std::int64_t number = now_.step + 1;
  step.report.step = number, step.report.epoch = batches.epoch + 1;
  step.report.lr = s_.timetable.rate_at(number);
  step.samples = batches.samples;
  if (dist::FlightRecorder* const flight = s_.checkpoints->flight())
    flight->compute(dist::FlightEvent::Kind::step, "", static_cast<std::uint32_t>(number));
  figures_.begin_step();
  s_.strategy->begin_step({.step = number,
                           .passed_over = now_.passed_over,
                           .lr = step.report.lr,
                           .own_weight = s_.is.joins ? weight : 1,
                           .samples = batches.spread});
  if (s_.probes) s_.probes->begin_step(number);
  s_.arena->begin_step();
  s_.context.step = now_.step;
}

Share Trainer::load_data(StepFigures::Step& step) {
  const dist::Busy busy(dist::Busy::With::files, "waits for its data");
  const auto start = Clock::now();
  const Share share = s_.workload.load();
  step.report.data_ms += 1e3 * seconds_since(start);
  return share;
}

/// Runs the loaded micro-batch: forward, and backward if the loss is finite. Returns false if it was not, and the step
/// is to be passed over. Adds its figures to `step`.
///   weight   of the micro-batch's mean gradient in the step's gradient
bool Trainer::train_micro_batch(const Share& share, double weight, bool last, StepFigures::Step& step) {
  // With `on-nan` skip what comes after a loss hangs on it.
  const bool reads_later = s_.o.device.kind == Device::Kind::cuda && !s_.o.skip_nan;
  const auto waiting_and_updating = [&] {
    return s_.worker.engine.counters().exposed_seconds + s_.strategy->costs().update_seconds;
  };
  s_.context.first_sample = share.first_sample;
  Tensor loss;
  float value = 0;
  const auto forward_start = Clock::now();
  const double blocked = waiting_and_updating();
  if (share.samples > 0) {
    if (spans_) spans_->begin_forward();
    loss = s_.workload.loss();
    if (reads_later)
      losses_.add(loss, share.samples);
    else
      value = loss.item();
  }
  step.report.forward_ms += 1e3 * (seconds_since(forward_start) - (waiting_and_updating() - blocked));
  if (s_.o.skip_nan) {
    // A forward hands on what others wait for in theirs (PowerSGD's second product): without samples there is none.
    if (share.samples == 0) s_.strategy->flush();
    if (!finite_everywhere(value)) return false;
  } else if (!std::isfinite(value)) {
    s_.report_non_finite(value);
  }
  step.own_samples += share.samples;
  step.loss_sum += static_cast<double>(value) * static_cast<double>(share.samples);
  const auto backward_start = Clock::now();
  const double selecting = s_.strategy->costs().select_seconds;
  if (share.samples > 0) s_.arena->backward(loss, static_cast<float>(weight), last);
  if (last) s_.arena->finish_gradients();
  step.report.backward_ms += 1e3 * (seconds_since(backward_start) - (s_.strategy->costs().select_seconds - selecting));
  return true;
}

bool Trainer::finite_everywhere(float loss) {
  std::vector<double> bad{std::isfinite(loss) ? 0.0 : 1.0};
  if (s_.is.joins) sum_over_workers(s_.worker, "agreement on skipping a step", bad);
  return bad[0] == 0;
}

/// The figures of the step go to all ranks while the next one runs.
void Trainer::end_step(StepFigures::Step& step) {
  if (s_.probes) step.report.gradients = s_.probes->take_counts();
  step.costs = s_.strategy->costs();
  step.stop_requested = s_.o.stop_requested && s_.o.stop_requested();
  step.report.bytes_counted = s_.bytes_counted();
  if (s_.is.joins)
    step.report.bytes_dense = static_cast<std::int64_t>(
        dist::ring_allreduce_cost(s_.worker.size, static_cast<double>(s_.arena->elements()) * sizeof(float)).bytes);
  step.file = s_.checkpoints->written();
  figures_.close(step);
  s_.checkpoints->count(figures_.files(), figures_.files_at());
  s_.servers->tell({.kind = dist::Command::Kind::figures, .step = now_.step});
  figures_.send();
}

void Trainer::flush() {
  const double exposed_before = s_.worker.engine.counters().exposed_seconds;
  const auto start = Clock::now();
  s_.strategy->flush();
  figures_.extend(start, exposed_before);
  figures_.finish();
}

}  // namespace laconic
