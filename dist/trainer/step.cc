#include <cmath>
#include <limits>

#include "core/raw.h"
#include "dist/fingerprint.h"
#include "dist/trainer/internals.h"
#include "dist/trainer/server_half.h"

namespace laconic {
void Trainer::train_step() {
  const std::int64_t per_epoch = steps_per_epoch(), batches = workload_.batches_per_epoch();
  const std::int64_t first_batch = step_ % per_epoch * o_.accumulate;
  const std::int64_t micro_batches = std::min(o_.accumulate, batches - first_batch);
  const double lr =
      o_.lr * o_.schedule.factor(step_, {per_epoch, o_.steps && o_.epochs == 0 ? *o_.steps : o_.epochs * per_epoch});
  const double exposed_before = worker_.engine.counters().exposed_seconds;
  update_seconds_ = 0;
  double data_seconds = 0, forward_seconds = 0, backward_seconds = 0, loss_sum = 0;
  std::int64_t own = 0, own_in_step = 0, global = 0;
  bool skipped = false;
  // With --on-nan skip what comes after a loss hangs on it.
  const bool reads_later = o_.device.kind == Device::Kind::cuda && !o_.skip_nan;
  std::vector<std::pair<Tensor, Tensor>> buffers_before;  // with --on-nan skip: running statistics, and a copy
  if (o_.skip_nan)
    for (const auto& [name, tensor] : workload_.model().named_buffers()) {
      buffers_before.emplace_back(tensor, Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device()));
      buffers_before.back().second.copy_from(tensor);
    }

  strategy_->begin_step({.step = step_ + 1, .lr = lr});
  if (dump_) dump_->begin_step(step_ + 1);
  arena_->begin_step();
  context_.step = step_;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    const Share share = workload_.share(first_batch + m);
    global += share.global_samples;
    own_in_step += share.samples;
  }
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    const auto data_start = Clock::now();
    const Share share = workload_.load();
    data_seconds += seconds_since(data_start);
    if (skipped) continue;  // the data goes on
    own += share.samples;
    context_.first_sample = share.first_sample;
    Tensor loss;
    float value = 0;
    const auto forward_start = Clock::now();
    const auto waiting_and_updating = [&] {
      return worker_.engine.counters().exposed_seconds + update_seconds_ + strategy_->work().update_seconds;
    };
    const double blocked = waiting_and_updating();
    if (share.samples > 0) {
      if (forward_spans_) forward_spans_->begin();
      loss = workload_.loss();
      if (reads_later)
        losses_.add(loss, share.samples);
      else
        value = loss.item();
    }
    forward_seconds += seconds_since(forward_start) - (waiting_and_updating() - blocked);
    if (o_.skip_nan) {
      skipped = !finite_everywhere(value);
      if (skipped) {
        for (const auto& [tensor, copy] : buffers_before) tensor.copy_from(copy);
        workload_.pass_over();
        continue;
      }
    } else if (!std::isfinite(value)) {
      report_non_finite(value);
    }
    loss_sum += static_cast<double>(value) * static_cast<double>(share.samples);
    const auto backward_start = Clock::now();
    const double selecting = strategy_->work().select_seconds;
    const bool last = m + 1 == micro_batches;
    if (share.samples > 0) {
      // n_k N / n: the mean over the global batch, however unevenly a short batch is spread (workers add up, then / N).
      // Computing alone, each worker follows the mean over its own samples.
      const double weight = !is_.joins
                                ? static_cast<double>(share.samples) / static_cast<double>(own_in_step)
                                : static_cast<double>(share.samples) * worker_.size / static_cast<double>(global);
      arena_->backward(loss, static_cast<float>(weight), last);
    }
    if (last) arena_->finish_gradients();
    backward_seconds += seconds_since(backward_start) - (strategy_->work().select_seconds - selecting);
  }

  if (worker_.rank == 0) memory_.after_step();
  for (const StepLosses::Loss& loss : losses_.read()) {  // before any update that waits for the end of the step
    if (!std::isfinite(loss.value)) report_non_finite(loss.value);
    loss_sum += static_cast<double>(loss.value) * static_cast<double>(loss.samples);
  }
  if (clips_norm() && !skipped) apply_clipped();
  dist::StepStats stats;
  if (step_ + 1 == last_step()) strategy_->flush();  // its messages belong to this step: there is no later one
  strategy_->end_step(stats);
  ++step_;

  finish_report();  // of the step before: its figures have had a whole step to arrive
  StepReport& r = pending_.report;
  r.step = step_;
  r.epoch = (step_ - 1) / per_epoch + 1;
  r.lr = lr;
  const double seconds = seconds_since(clock_->step_start);
  clock_->step_start = Clock::now();
  r.step_ms = 1e3 * seconds;
  const dist::EngineCounters now = worker_.engine.counters();
  r.samples_per_s = static_cast<double>(global) / seconds;
  r.bytes_sent = static_cast<std::int64_t>(now.sent.bytes - counted_.sent.bytes);
  r.bytes_dense = static_cast<std::int64_t>(stats.bytes_dense);
  r.bytes_counted = bytes_counted();
  r.data_ms = 1e3 * data_seconds;
  r.forward_ms = 1e3 * forward_seconds;
  r.backward_ms = 1e3 * backward_seconds;
  r.select_ms = stats.select_ms;
  r.comm_ms = 1e3 * (now.comm_seconds - counted_.comm_seconds);
  r.exposed_ms = 1e3 * (now.exposed_seconds - exposed_before);
  r.update_ms = stats.update_ms;
  summary_.buffer_bytes_peak = static_cast<std::int64_t>(stats.buffer_bytes_peak);
  counted_ = now;
  const double cpu = process_cpu_seconds();
  training_seconds_ += seconds;
  exposed_seconds_ += r.exposed_ms / 1e3;
  data_seconds_ += data_seconds;
  trained_samples_ += static_cast<double>(global);

  pending_.sums.assign(kFigures, 0.0);
  pending_.sums[kLoss] = loss_sum;
  pending_.sums[kSamples] = static_cast<double>(own);
  pending_.sums[kBytes] = static_cast<double>(r.bytes_sent);
  pending_.sums[kUp] = static_cast<double>(stats.bytes_up);
  pending_.sums[kDown] = static_cast<double>(stats.bytes_down);
  pending_.sums[kCpuSeconds] = cpu - std::exchange(counted_cpu_, cpu);
  pending_.sums[kStop] = o_.stop_requested && o_.stop_requested() ? 1 : 0;
  pending_.sums[kSkipped] = skipped ? 1 : 0;
  pending_.seconds = seconds;
  pending_.any = true;
  tell_servers({.kind = dist::Command::Kind::figures});
  // Where nothing is joined each worker reports of itself.
  if (is_.joins)
    pending_.ticket = worker_.engine.submit(
        {.name = "figures of a step",
         .slot = figures_slot_,
         .priority = 1 << 30,
         .body = [this](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(pending_.sums)); }});
  if (o_.audit_every > 0 && step_ % o_.audit_every == 0) audit();
}

void Trainer::finish_report() {
  if (!pending_.any) return;
  worker_.engine.wait(std::exchange(pending_.ticket, {}));
  if (Trace::Row* row = Trace::current()) row->forget_arrows();
  pending_.any = false;
  const std::vector<double>& sums = pending_.sums;
  StepReport& r = pending_.report;
  r.loss = sums[kSamples] > 0 ? sums[kLoss] / sums[kSamples] : 0;
  if (sums[kSkipped] > 0) r.loss = std::numeric_limits<double>::quiet_NaN();
  r.bytes_sent_sum = static_cast<std::int64_t>(sums[kBytes]);
  if (sums[kStop] > 0 && (is_.joins || worker_.size == 1)) stop_ = true;  // else: all stop after an evaluation
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
  if (observer_) observer_->on_step(r);
}

bool Trainer::finite_everywhere(float loss) {
  std::vector<double> bad{std::isfinite(loss) ? 0.0 : 1.0};
  if (is_.joins)
    worker_.run("agreement on skipping a step",
                [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(bad)); });
  return bad[0] == 0;
}

void Trainer::report_non_finite(float loss) {
  arena_->set_listener(nullptr);  // what is under way may hold this step's gradients: forward is to wait for none
  const auto fail = [&](const std::string& where) {
    throw Error(concat("training: the loss is ", std::isnan(loss) ? "not a number" : "infinite", " at step ", step_ + 1,
                       "; ", where,
                       ". Lower --lr, clip gradients (--clip norm:5), or pass over such steps (--on-nan skip)."));
  };
  for (auto it = arena_->parameters().rbegin(); it != arena_->parameters().rend(); ++it)
    if (!raw::all_finite((*it)->value())) fail(concat("the first parameter that is not finite is ", (*it)->info.name));
  std::string first;
  const ForwardWatch watch = [&](const std::string& path, const Tensor& output) {
    if (first.empty() && output.dtype() == DType::f32 && !raw::all_finite(output)) first = path;
  };
  Module& model = workload_.model();
  model.set_watch(&watch);
  workload_.pass_over();
  {
    const NoGrad no_grad;
    workload_.loss();
  }
  model.set_watch(nullptr);
  fail(first.empty() ? "every layer's output is finite, the loss itself is not"
                     : "it shows first in the output of layer " + first);
  std::abort();  // not reached
}

/// The last update may have broken the model: then there is nothing worth evaluating or saving.
void Trainer::require_finite_weights() const {
  const auto check = [&](const char* what, const std::string& name, const Tensor& tensor) {
    require<Error>(tensor.dtype() != DType::f32 || raw::all_finite(tensor), "training: after step ", step_, " the ",
                   what, " ", name, " is not finite. Lower --lr, or clip gradients (--clip norm:5).");
  };
  if (!raw::all_finite(arena_->values()))
    for (const auto& p : arena_->parameters()) check("parameter", p->info.name, p->value());
  for (const auto& [name, tensor] : workload_.model().named_buffers()) check("buffer", name, tensor);
}

void Trainer::apply(Parameter& p, Rows rows, const dist::StepContext& context) {
  const auto start = Clock::now();
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
  update_seconds_ += seconds_since(start);
}

/// --clip norm: all gradients must have arrived before the first update, which ends the overlap with the next forward.
void Trainer::apply_clipped() {
  strategy_->flush();
  const double mean = arrived_context_.gradient_scale;  // the arena holds sums
  const double scale = mean * clip_scale(mean * mean * gradient_sum_of_squares(*arena_), o_.clip.limit);
  const auto start = Clock::now();
  for (const auto& [p, rows] : std::exchange(arrived_, {})) optimizer_->update(*p, rows, arrived_context_.lr, scale);
  update_seconds_ += seconds_since(start);
}

void Trainer::flush() {
  const double exposed_before = worker_.engine.counters().exposed_seconds;
  const auto start = Clock::now();
  strategy_->flush();
  if (pending_.any) {  // what had to be waited for and updated here is time of the step just made
    StepReport& r = pending_.report;
    const dist::EngineCounters now = worker_.engine.counters();
    const double extra = seconds_since(start), exposed = now.exposed_seconds - exposed_before;
    r.step_ms += 1e3 * extra;
    r.samples_per_s /= 1 + extra / pending_.seconds;
    r.exposed_ms += 1e3 * exposed;
    r.comm_ms += 1e3 * (now.comm_seconds - std::exchange(counted_.comm_seconds, now.comm_seconds));
    pending_.seconds += extra;
    training_seconds_ += extra;
    exposed_seconds_ += exposed;
  }
  finish_report();
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
  audit_servers();
  strategy_->hide_joint_model();
}

}  // namespace laconic
