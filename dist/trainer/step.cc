#include <cmath>

#include "core/raw.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/trainer/checkpointing.h"
#include "dist/trainer/evaluation.h"
#include "dist/trainer/servers.h"
#include "dist/trainer/spans.h"
#include "dist/world.h"

namespace laconic {

/// Runs the next micro-batch: forward, and backward if the loss is finite. Adds its figures to `step`.
///   weight   of the micro-batch's mean gradient in the step's gradient
bool Trainer::train_micro_batch(const Share& share, double weight, bool last, StepFigures::Step& step) {
  // With --on-nan skip what comes after a loss hangs on it.
  const bool reads_later = o_.device.kind == Device::Kind::cuda && !o_.skip_nan;
  const auto waiting_and_updating = [&] {
    return worker_.engine.counters().exposed_seconds + strategy_->costs().update_seconds;
  };
  context_.first_sample = share.first_sample;
  Tensor loss;
  float value = 0;
  const auto forward_start = Clock::now();
  const double blocked = waiting_and_updating();
  if (share.samples > 0) {
    if (spans_) spans_->begin_forward();
    loss = workload_.loss();
    if (reads_later)
      losses_.add(loss, share.samples);
    else
      value = loss.item();
  }
  step.report.forward_ms += 1e3 * (seconds_since(forward_start) - (waiting_and_updating() - blocked));
  if (o_.skip_nan) {
    // A forward hands on what others wait for in theirs (PowerSGD's second product): without samples there is none.
    if (share.samples == 0) strategy_->flush();
    if (!finite_everywhere(value)) return false;
  } else if (!std::isfinite(value)) {
    report_non_finite(value);
  }
  step.own_samples += share.samples;
  step.loss_sum += static_cast<double>(value) * static_cast<double>(share.samples);
  const auto backward_start = Clock::now();
  const double selecting = strategy_->costs().select_seconds;
  if (share.samples > 0) arena_->backward(loss, static_cast<float>(weight), last);
  if (last) arena_->finish_gradients();
  step.report.backward_ms += 1e3 * (seconds_since(backward_start) - (strategy_->costs().select_seconds - selecting));
  return true;
}

void Trainer::train_step() {
  const std::int64_t epoch = epoch_of(step_), first_batch = batch_at(step_);
  const std::int64_t micro_batches = std::min(o_.accumulate, batches_in(epoch) - first_batch);
  StepFigures::Step step;
  step.report.step = step_ + 1, step.report.epoch = epoch + 1;
  const double lr = step.report.lr = rate_at(step_ + 1);
  std::int64_t own = 0;
  dist::StepSamples spread{.each = 0};
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    const Share share = workload_.share(epoch, first_batch + m);
    step.samples += share.global_samples, own += share.samples;
    if (share.global_samples == worker_.size * share.each)
      spread.each += share.each;
    else
      spread.rest = share.global_samples, spread.batch = share.each;  // the last of an epoch
  }
  require<Error>(own == spread.of(worker_.rank), "training: worker ", worker_.rank, " has ", own, " samples of step ",
                 step_ + 1, ", and ", spread.of(worker_.rank), " by its place. Let Workload::share() say `each`.");
  // n_k N / n: the mean over the global batch, however unevenly a short batch is spread (workers add up, then / N).
  // Computing alone, each worker follows the mean over its own samples.
  const auto weight_of = [&](std::int64_t samples) {
    return is_.joins ? dist::weight_of(samples, step.samples, worker_.size)
                     : static_cast<double>(samples) / static_cast<double>(own);
  };
  std::optional<KeptBuffers> before;
  if (o_.skip_nan) before.emplace(workload_.model());

  if (dist::FlightRecorder* const flight = checkpoints_->flight())
    flight->compute(dist::FlightEvent::Kind::step, "", static_cast<std::uint32_t>(step_ + 1));
  figures_.begin_step();
  strategy_->begin_step({.step = step_ + 1,
                         .passed_over = passed_over_,
                         .lr = lr,
                         .own_weight = is_.joins ? weight_of(own) : 1,
                         .samples = spread});
  if (gradients_) gradients_->begin_step(step_ + 1);
  if (dump_) dump_->begin_step(step_ + 1);
  if (counter_) counter_->begin_step(step_ + 1);
  arena_->begin_step();
  context_.step = step_;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    const auto data_start = Clock::now();
    const Share share = load_data();
    step.report.data_ms += 1e3 * seconds_since(data_start);
    if (step.skipped) continue;  // the data goes on
    if (train_micro_batch(share, weight_of(share.samples), m + 1 == micro_batches, step)) continue;
    step.skipped = true;
    before->put_back();
    workload_.pass_over();
  }
  if (worker_.rank == 0) memory_.after_step();
  losses_.read([&](float loss, std::int64_t samples) {  // before any update that waits for the end of the step
    if (!std::isfinite(loss)) report_non_finite(loss);
    step.loss_sum += static_cast<double>(loss) * static_cast<double>(samples);
  });
  if (gradients_) gradients_->require_finite();
  if (clips_norm() && !step.skipped) apply_clipped();
  strategy_->end_step();
  if (step_ + 1 == last_step()) strategy_->flush();  // its messages belong to this step: there is no later one
  ++step_;
  passed_over_ += step.skipped ? 1 : 0;
  if (!step.skipped) samples_.own += own, samples_.all += step.samples;

  if (counter_) step.report.gradients = counter_->take();
  step.costs = strategy_->costs();
  step.stop_requested = o_.stop_requested && o_.stop_requested();
  step.report.bytes_counted = bytes_counted();
  if (is_.joins)
    step.report.bytes_dense = static_cast<std::int64_t>(
        dist::ring_allreduce_cost(worker_.size, static_cast<double>(arena_->elements()) * sizeof(float)).bytes);
  step.file = checkpoints_->written();
  figures_.close(step);
  checkpoints_->count(figures_.files(), figures_.files_at());
  servers_->tell({.kind = dist::Command::Kind::figures, .step = step_});
  figures_.send();
  if (o_.audit_every > 0 && step_ % o_.audit_every == 0) audit();
}

void Trainer::start_data(std::int64_t epoch, std::int64_t batch) {
  const dist::Busy busy(dist::Busy::With::files, "waits for its data");
  workload_.start(epoch, batch);
}

Share Trainer::load_data() {
  const dist::Busy busy(dist::Busy::With::files, "waits for its data");
  return workload_.load();
}

bool Trainer::finite_everywhere(float loss) {
  std::vector<double> bad{std::isfinite(loss) ? 0.0 : 1.0};
  if (is_.joins) sum_over_workers(worker_, "agreement on skipping a step", bad);
  return bad[0] == 0;
}

void Trainer::report_non_finite(float loss) {
  arena_->set_listener(nullptr);  // what is under way may hold this step's gradients: forward is to wait for none
  const auto fail = [&](const std::string& where) {
    throw Error(concat("training: the loss is ", std::isnan(loss) ? "not a number" : "infinite", " at step ", step_ + 1,
                       "; ", where));
  };
  for (auto it = arena_->parameters().rbegin(); it != arena_->parameters().rend(); ++it)
    if (!raw::all_finite((*it)->value()))
      fail(concat("the first parameter that is not finite is ", (*it)->info.name, ". ", cause_of_non_finite(**it)));
  std::string first;
  const ForwardWatch watch = [&](const std::string& path, const Tensor& output) {
    if (first.empty() && is_real(output.dtype()) && !raw::all_finite(output)) first = path;
  };
  workload_.pass_over();
  {
    const Watched watched(workload_.model(), watch);
    const NoGrad no_grad;
    workload_.loss();
  }
  fail(concat(first.empty() ? "every layer's output is finite, the loss itself is not"
                            : "it shows first in the output of layer " + first,
              ". Lower `lr`, clip gradients (`clip` norm:5), or pass over such steps (`on-nan` skip)."));
  std::abort();  // not reached
}

/// What made a parameter no number in the last update, as far as it is known, and what helps.
std::string Trainer::cause_of_non_finite(const Parameter& p) const {
  const bool brought_finite = gradients_ && !gradients_->found() && GradientWatch::looks_at(p);
  if (is_.joins && worker_.size > 1 && brought_finite && !raw::all_finite(p.grad()))
    return concat("Its gradient was finite on rank ", worker_.rank, ", and after the exchange of step ", step_,
                  " it was not: take `codec` bf16 or none, or another `sync` than ", method_->name(), ".");
  return "Lower `lr`, or clip gradients (`clip` norm:5).";
}

/// The last update may have broken the model: then there is nothing worth evaluating or saving.
void Trainer::require_finite_weights() const {
  if (!raw::all_finite(arena_->values()))
    for (const auto& p : arena_->parameters())
      if (!raw::all_finite(p->value()))
        throw Error(concat("training: after step ", step_, " the parameter ", p->info.name, " is not finite. ",
                           cause_of_non_finite(*p)));
  for (const auto& [name, tensor] : workload_.model().named_buffers())
    require<Error>(tensor.dtype() != DType::f32 || raw::all_finite(tensor), "training: after step ", step_,
                   " the buffer ", name, " is not finite. Lower `lr`, or clip gradients (`clip` norm:5).");
}

void Trainer::apply(Parameter& p, Rows rows, const dist::StepContext& context) {
  if (clips_norm()) {
    arrived_.emplace_back(&p, rows);
    arrived_context_ = context;
    return;
  }
  Trace::Span span(p.info.name, "update");
  if (o_.clip.kind == Clip::Kind::value) {
    const bool all = rows.count == p.all_rows().count;
    clip_value(all ? p.grad() : p.grad().rows(rows.first, rows.count), o_.clip.limit / context.gradient_scale);
  }
  optimizer_->update(p, rows, context.lr, context.gradient_scale);
}

/// --clip norm: all gradients must have arrived before the first update, which ends the overlap with the next forward.
void Trainer::apply_clipped() {
  strategy_->flush();
  const double mean = arrived_context_.gradient_scale;  // the arena holds sums
  const double scale = mean * clip_scale(mean * mean * gradient_sum_of_squares(*arena_), o_.clip.limit);
  optimizer_->update(std::exchange(arrived_, {}), arrived_context_.lr, scale);
}

void Trainer::flush() {
  const double exposed_before = worker_.engine.counters().exposed_seconds;
  const auto start = Clock::now();
  strategy_->flush();
  figures_.extend(start, exposed_before);
  figures_.finish();
}

void Trainer::audit() {
  strategy_->flush();
  if (!is_.joins) return;
  const auto equal_everywhere = [&](const char* what) {
    std::uint64_t hash = checksum({});  // parameter by parameter: padding left out
    for (const auto& p : arena_->parameters()) hash = checksum(p->value().slice(), hash);
    dist::check_fingerprint(worker_, concat(what, " after step ", step_, "=", hash));
  };
  if (is_.same_bits) equal_everywhere("parameters");
  strategy_->show_joint_model();
  if (strategy_->drift()) equal_everywhere("the joint model");
  servers_->audit(step_);
  strategy_->hide_joint_model();
}

}  // namespace laconic
