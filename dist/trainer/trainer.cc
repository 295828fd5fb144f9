#include "dist/trainer/trainer.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/parallel.h"
#include "core/raw.h"
#include "dist/collective/allgather.h"
#include "dist/collective/barrier.h"
#include "dist/collective/broadcast.h"
#include "dist/fingerprint.h"
#include "dist/sync/allreduce.h"
#include "dist/sync/none.h"

namespace laconic {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// What rides on each step's message of figures, summed over ranks.
enum Figure { kLoss, kSamples, kBytes, kStop, kSkipped, kFigures };

}  // namespace

struct Trainer::StepClock {
  Clock::time_point run_start = Clock::now(), step_start = Clock::now();
};

/// Draws every operation's backward into the trace.
struct Trainer::BackwardSpans final : BackwardWatch {
  void before(const char* operation, const std::string& layer) override {
    name = layer.empty() ? operation : layer;
    begin = Clock::now();
  }
  void after() override {
    if (Trace::Row* row = Trace::current()) row->add(name, "backward", begin, Clock::now());
  }
  std::string name;
  Clock::time_point begin;
};

/// Draws every layer's forward into the trace: what happened since the layer before it, or since begin().
struct Trainer::ForwardSpans {
  void begin() { last = Clock::now(); }
  Clock::time_point last;
  ForwardWatch watch = [this](const std::string& layer, const Tensor&) {
    const Clock::time_point now = Clock::now();
    if (Trace::Row* row = Trace::current()) row->add(layer, "forward", last, now);
    last = now;
  };
};

/// What is sent while it lives belongs to no step: weights at the start, evaluation, checkpoints. Nothing else may be
/// under way when it begins.
class Trainer::OutsideSteps {
 public:
  explicit OutsideSteps(Trainer& t) : t_(t), begin_(t.worker_.engine.counters()) {}
  ~OutsideSteps() {
    const dist::EngineCounters end = t_.worker_.engine.counters();
    t_.counted_.sent.bytes += end.sent.bytes - begin_.sent.bytes;
    t_.counted_.comm_seconds += end.comm_seconds - begin_.comm_seconds;
  }
  OutsideSteps(const OutsideSteps&) = delete;
  OutsideSteps& operator=(const OutsideSteps&) = delete;

 private:
  Trainer& t_;
  const dist::EngineCounters begin_;
};

class Trainer::MeanBuffers {
 public:
  explicit MeanBuffers(Trainer& t) {
    if (t.worker_.size == 1) return;
    std::vector<double> sums;
    for (const auto& [name, tensor] : t.workload_.model().named_buffers()) {
      if (tensor.dtype() != DType::f32) continue;
      own_.emplace_back(tensor, tensor.to_vector());
      sums.insert(sums.end(), own_.back().second.begin(), own_.back().second.end());
    }
    if (own_.empty()) return;
    t.worker_.engine.run("mean of running statistics",
                         [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(sums)); });
    std::size_t next = 0;
    for (const auto& [tensor, values] : own_) {
      std::vector<float> mean(values.size());
      for (float& m : mean) m = static_cast<float>(sums[next++] / t.worker_.size);
      tensor.copy_from(Tensor::of(tensor.shape(), mean));
    }
  }
  ~MeanBuffers() {
    for (const auto& [tensor, values] : own_) tensor.copy_from(Tensor::of(tensor.shape(), values));
  }
  MeanBuffers(const MeanBuffers&) = delete;
  MeanBuffers& operator=(const MeanBuffers&) = delete;

 private:
  std::vector<std::pair<Tensor, std::vector<float>>> own_;
};

Trainer::Trainer(dist::Worker& worker, Workload& workload, TrainerOptions options, Observer* observer)
    : worker_(worker), workload_(workload), o_(std::move(options)), observer_(worker.rank == 0 ? observer : nullptr), clock_(std::make_unique<StepClock>()), bytes_before_(worker.engine.counters().sent.bytes) {
  set_kernel_threads(o_.threads);
  Module& model = workload_.model();
  context_ = {.seed = o_.seed, .dropout = o_.dropout};
  model.set_context(&context_);
  model.initialize(o_.seed);
  if (!o_.init.empty()) load_init();
  model.to(o_.device);
  arena_ = std::make_unique<ParameterArena>(model.parameters(), o_.device);
  optimizer_ = make_optimizer(*arena_, o_.optimizer);
  dist::check_fingerprint(worker_.engine, fingerprint());
  agree_on_plan();
  const dist::Update update = [this](Parameter& p, Rows rows, const dist::StepContext& context) { apply(p, rows, context); };
  if (o_.sync == "none") {
    strategy_ = std::make_unique<dist::NoSync>(*arena_, update);
  } else {
    require<UsageError>(o_.sync == "allreduce", "unknown strategy '", o_.sync, "' (--sync): there are none and allreduce");
    strategy_ = std::make_unique<dist::AllreduceSync>(*arena_, worker_.engine, plan_, update, dist::AllreduceSync::Options{.mean = o_.mean, .overlap = o_.overlap});
  }
  arena_->set_listener(strategy_.get());
  figures_slot_ = worker_.engine.reserve_slots(1);
  if (o_.resume.empty()) {
    make_equal();
  } else {
    restore();
  }
  counted_ = worker_.engine.counters();
}

Trainer::~Trainer() {
  // An exception may pass while figures are under way: the engine must not write into pending_ any more.
  if (pending_.any) worker_.engine.halt();
  workload_.model().set_context(nullptr);
}

void Trainer::load_init() {
  if (worker_.rank == 0) load_weights(workload_.model(), load_safetensors(o_.init), o_.init, o_.model_name);
}

/// Rank 0 decides what travels how: as the checkpoint says that is resumed, or a file, or the options.
void Trainer::agree_on_plan() {
  constexpr std::uint64_t kMaxPlanBytes = std::uint64_t{1} << 30;
  dist::PlanOptions options = o_.plan;
  if (worker_.size == 1) options.chunk_bytes = 0;  // nothing travels, nothing is hidden
  const auto read = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    require<DataError>(in.good() && text.good(), "plan: cannot read ", path, " (--plan). Check the path.");
    return text.str();
  };
  std::string text, where = "the plan of rank 0";
  if (worker_.rank == 0) {
    if (o_.plan_file.empty()) {
      text = dist::make_plan(arena_->parameters(), options, worker_.size).json();
    } else {
      text = dist::Plan::from_json(read(o_.plan_file), arena_->parameters(), o_.plan_file).json();
    }
  }
  if (!o_.resume.empty()) {
    const std::string checkpoint = CheckpointStore::newest(o_.resume);
    const Manifest manifest = CheckpointStore::read_manifest(checkpoint);
    require_same_training(manifest, checkpoint);
    if (worker_.rank == 0) {
      const std::string stored = dist::Plan::from_json(manifest.plan, arena_->parameters(), checkpoint).json();
      if (stored != text && o_.sync != "none")
        fmt::print(stderr, "laconic: note: messages travel by the plan that is stored in {}, not by the one of these options\n", checkpoint);
      text = stored;
    }
  }
  if (worker_.size > 1) {
    std::uint64_t size = text.size();
    const auto send = [&](Slice<std::byte> bytes) {
      worker_.engine.run("broadcast of the plan", [&](dist::Communicator& comm) { return dist::broadcast(comm, bytes); });
    };
    send(Slice<std::uint64_t>(&size, 1).bytes());
    require<CommError>(size <= kMaxPlanBytes, "plan: rank 0 announces ", size, " bytes. Start all ranks with the same program.");
    text.resize(size);
    send(Slice<char>(text.data(), text.size()).bytes());
  }
  plan_ = dist::Plan::from_json(text, arena_->parameters(), where);
  for (const dist::Bucket& bucket : plan_.buckets)
    require<UsageError>(bucket.algorithm != dist::Algorithm::mpi || o_.sync == "none" || dist::ranks_under_mpirun() > 0,
                        "the algorithm mpi needs ranks that MPI has started (--allreduce): start them with laconic launch -n N, or use ring");
}

/// Rank 0's parameters and buffers on every rank.
void Trainer::make_equal() {
  if (worker_.size == 1) return;
  const auto send = [&](const char* what, Slice<std::byte> bytes) {
    worker_.engine.run(what, [&](dist::Communicator& comm) { return dist::broadcast(comm, bytes); });
  };
  send("broadcast of the weights", arena_->values().slice().bytes());
  for (const auto& p : arena_->parameters()) p->value().bump_version();
  for (const auto& [name, tensor] : workload_.model().named_buffers())
    send("broadcast of buffers", Slice<std::byte>(static_cast<std::byte*>(tensor.raw_data()), tensor.bytes(), tensor.device()));
}

std::string Trainer::fingerprint() const {
  const OptimizerOptions& opt = o_.optimizer;
  return concat("model=", o_.model_name, "\nparameters=", arena_->elements(), "\n", workload_.fingerprint(), "\nseed=", o_.seed,
                "\noptimizer=", opt.name, " momentum=", opt.momentum, " nesterov=", opt.nesterov, " decay=", opt.decay.weight_decay, " ",
                opt.decay.norm_and_bias, "\nlr=", o_.lr, "\nschedule=", o_.schedule.text(), "\nclip=", static_cast<int>(o_.clip.kind), ":",
                o_.clip.limit, "\naccumulate=", o_.accumulate, "\ndropout=", o_.dropout, "\nsync=", o_.sync, "\nmean=", o_.mean,
                "\non-nan=", o_.skip_nan, "\nplan=", o_.plan_file.empty() ? dist::to_string(o_.plan) : "of a file");
}

std::int64_t Trainer::steps_per_epoch() const { return (workload_.batches_per_epoch() + o_.accumulate - 1) / o_.accumulate; }

std::int64_t Trainer::last_step() const { return o_.steps ? *o_.steps : o_.epochs * steps_per_epoch(); }

RunInfo Trainer::info() const {
  RunInfo info;
  info.model = o_.model_name;
  info.data = workload_.data_name();
  info.strategy = o_.sync != "allreduce"      ? o_.sync
                  : o_.plan_file.empty() ? concat("allreduce, ", dist::allreduce_text(o_.plan))
                                         : concat("allreduce by ", o_.plan_file);
  if (o_.sync == "allreduce" && o_.overlap != dist::Overlap::forward)
    info.strategy += o_.overlap == dist::Overlap::none ? ", no overlap" : ", overlap with backward only";
  info.transport = dist::ranks_under_mpirun() > 0 ? "mpi" : "threads";
  info.parameters = arena_->elements();
  info.train_samples = workload_.train_samples();
  info.test_samples = workload_.test_samples();
  info.workers = worker_.size;
  info.threads = o_.threads;
  info.batch = static_cast<int>(workload_.batch());
  info.steps_per_epoch = steps_per_epoch();
  info.total_steps = last_step();
  info.first_step = step_;
  return info;
}

std::string Trainer::description() const {
  const double mib = 1.0 / (1 << 20);
  const auto bytes = static_cast<double>(arena_->size()) * sizeof(float);
  const double state = [&] {
    StateDict s;
    optimizer_->save(s);
    double total = 0;
    for (const auto& [name, tensor] : s) total += static_cast<double>(tensor.bytes());
    return total;
  }();
  const double dense = worker_.size > 1 && o_.sync != "none" ? 2.0 * (worker_.size - 1) / worker_.size * static_cast<double>(arena_->elements()) * sizeof(float) : 0;
  return fmt::format(
      "{}: {} parameters, {} worker{}, {} steps per epoch, {} steps\n"
      "memory per worker: parameters {:.1f} MiB, gradients {:.1f} MiB, optimiser {:.1f} MiB, and activations\n"
      "bytes sent per worker and step: about {:.2f} MB\n"
      "buffers that messages are copied into: {:.2f} MB\n{}",
      o_.model_name, arena_->elements(), worker_.size, worker_.size == 1 ? "" : "s", steps_per_epoch(), last_step(), bytes * mib, bytes * mib, state * mib, dense / 1e6,
      o_.sync == "none" ? 0.0 : static_cast<double>(plan_.copied_bytes(arena_->parameters())) / 1e6,
      o_.sync == "none" ? std::string("no exchange (--sync none)\n") : plan_.table());
}

// ---------------------------------------------------------------------------------------------------- one step

void Trainer::train_step() {
  const std::int64_t per_epoch = steps_per_epoch(), batches = workload_.batches_per_epoch();
  const std::int64_t first_batch = step_ % per_epoch * o_.accumulate;
  const std::int64_t micro_batches = std::min(o_.accumulate, batches - first_batch);
  const double lr = o_.lr * o_.schedule.factor(step_, {per_epoch, o_.steps && o_.epochs == 0 ? *o_.steps : o_.epochs * per_epoch});
  const double exposed_before = worker_.engine.counters().exposed_seconds;
  update_seconds_ = 0;
  double forward_seconds = 0, backward_seconds = 0, loss_sum = 0;
  std::int64_t own = 0, own_in_step = 0, global = 0;
  bool skipped = false;
  std::vector<std::pair<Tensor, Tensor>> buffers_before;  // with --on-nan skip: running statistics, and a copy
  if (o_.skip_nan)
    for (const auto& [name, tensor] : workload_.model().named_buffers()) {
      buffers_before.emplace_back(tensor, Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device()));
      buffers_before.back().second.copy_from(tensor);
    }

  strategy_->begin_step({.step = step_ + 1, .lr = lr});
  arena_->begin_step();
  context_.step = step_;
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    const Share share = workload_.share(first_batch + m);
    global += share.global_samples;
    own_in_step += share.samples;
  }
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    const Share share = workload_.load();
    if (skipped) continue;  // the data goes on
    own += share.samples;
    context_.first_sample = share.first_sample;
    Tensor loss;
    float value = 0;
    const auto forward_start = Clock::now();
    const double blocked = worker_.engine.counters().exposed_seconds + update_seconds_;
    if (share.samples > 0) {
      if (forward_spans_) forward_spans_->begin();
      loss = workload_.loss();
      value = loss.item();
    }
    forward_seconds += seconds_since(forward_start) - (worker_.engine.counters().exposed_seconds + update_seconds_ - blocked);
    if (o_.skip_nan) {
      skipped = !finite_everywhere(value);
      if (skipped) {
        for (const auto& [tensor, copy] : buffers_before) tensor.copy_from(copy);
        continue;
      }
    } else if (!std::isfinite(value)) {
      report_non_finite(value);
    }
    loss_sum += static_cast<double>(value) * static_cast<double>(share.samples);
    const auto backward_start = Clock::now();
    const bool last = m + 1 == micro_batches;
    if (share.samples > 0) {
      // n_k N / n: the mean over the global batch, however unevenly a short batch is spread (workers add up, then / N).
      // Computing alone, each worker follows the mean over its own samples.
      const double weight = o_.sync == "none" ? static_cast<double>(share.samples) / static_cast<double>(own_in_step)
                                              : static_cast<double>(share.samples) * worker_.size / static_cast<double>(global);
      arena_->backward(loss, static_cast<float>(weight), last);
    }
    if (last) arena_->finish_gradients();
    backward_seconds += seconds_since(backward_start);
  }

  if (o_.clip.kind == Clip::Kind::norm && !skipped) apply_clipped();
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
  r.forward_ms = 1e3 * forward_seconds;
  r.backward_ms = 1e3 * backward_seconds;
  r.select_ms = stats.select_ms;
  r.comm_ms = 1e3 * (now.comm_seconds - counted_.comm_seconds);
  r.exposed_ms = 1e3 * (now.exposed_seconds - exposed_before);
  r.update_ms = stats.update_ms;
  summary_.buffer_bytes_peak = static_cast<std::int64_t>(stats.buffer_bytes_peak);
  counted_ = now;
  training_seconds_ += seconds;
  exposed_seconds_ += r.exposed_ms / 1e3;
  trained_samples_ += static_cast<double>(global);

  pending_.sums.assign(kFigures, 0.0);
  pending_.sums[kLoss] = loss_sum;
  pending_.sums[kSamples] = static_cast<double>(own);
  pending_.sums[kBytes] = static_cast<double>(r.bytes_sent);
  pending_.sums[kStop] = o_.stop_requested && o_.stop_requested() ? 1 : 0;
  pending_.sums[kSkipped] = skipped ? 1 : 0;
  pending_.seconds = seconds;
  pending_.any = true;
  // `none` sends nothing: each worker then reports of itself.
  if (o_.sync != "none")
    pending_.ticket = worker_.engine.submit({.name = "figures of a step",
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
  if (sums[kStop] > 0 && (o_.sync != "none" || worker_.size == 1)) stop_ = true;  // else: all stop after an evaluation
  summary_.bytes_sent_total += r.bytes_sent_sum;
  summary_.bytes_dense_total += r.bytes_dense * worker_.size;
  if (observer_) observer_->on_step(r);
}

bool Trainer::finite_everywhere(float loss) {
  std::vector<double> bad{std::isfinite(loss) ? 0.0 : 1.0};
  if (o_.sync != "none")
    worker_.engine.run("agreement on skipping a step", [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(bad)); });
  return bad[0] == 0;
}

void Trainer::report_non_finite(float loss) {
  const auto fail = [&](const std::string& where) {
    throw Error(concat("training: the loss is ", std::isnan(loss) ? "not a number" : "infinite", " at step ", step_ + 1, "; ", where,
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
  {
    const NoGrad no_grad;
    workload_.loss();
  }
  model.set_watch(nullptr);
  fail(first.empty() ? "every layer's output is finite, the loss itself is not" : "it shows first in the output of layer " + first);
  std::abort();  // not reached
}

/// The last update may have broken the model: then there is nothing worth evaluating or saving.
void Trainer::require_finite_parameters() const {
  for (const auto& p : arena_->parameters())
    require<Error>(raw::all_finite(p->value()), "training: after step ", step_, " the parameter ", p->info.name,
                   " is not finite. Lower --lr, or clip gradients (--clip norm:5).");
}

void Trainer::apply(Parameter& p, Rows rows, const dist::StepContext& context) {
  const auto start = Clock::now();
  if (o_.clip.kind == Clip::Kind::norm) {
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
  std::uint64_t hash = 1469598103934665603u;  // FNV-1a over the values' bits, parameter by parameter (padding left out)
  for (const auto& p : arena_->parameters())
    for (float v : p->value().to_vector()) {
      std::uint32_t bits;
      std::memcpy(&bits, &v, sizeof bits);
      hash = (hash ^ bits) * 1099511628211u;
    }
  if (o_.sync != "none") dist::check_fingerprint(worker_.engine, concat("parameters after step ", step_, "=", hash));
}

// ---------------------------------------------------------------------------------------------------- the run

RunSummary Trainer::run() {
  const std::int64_t end = last_step(), per_epoch = steps_per_epoch();
  BackwardSpans spans;
  std::optional<Trace::Thread> traced;
  if (o_.trace) {
    traced.emplace(o_.trace->row(worker_.rank, "compute"));
    set_backward_watch(&spans);
    forward_spans_ = std::make_unique<ForwardSpans>();
    workload_.model().set_watch(&forward_spans_->watch);
  }
  struct Unwatch {
    ~Unwatch() {
      set_backward_watch(nullptr);
      model.set_watch(nullptr);
    }
    Module& model;
  } unwatch{workload_.model()};

  if (observer_) observer_->on_start(info());
  if (step_ < end) workload_.start(step_ / per_epoch, step_ % per_epoch * o_.accumulate);
  clock_->run_start = clock_->step_start = Clock::now();
  const std::int64_t began = step_;
  bool evaluated = false;
  while (step_ < end && !stop_) {
    train_step();
    evaluated = false;
    const bool epoch_ends = step_ % per_epoch == 0;
    const bool save_now = o_.save_every && (o_.save_every->in_steps ? step_ % o_.save_every->count == 0
                                                                    : epoch_ends && step_ / per_epoch % o_.save_every->count == 0);
    if (epoch_ends) {
      const EvalReport report = evaluate();
      o_.schedule.end_epoch(report.loss);
      evaluated = true;
    }
    if (save_now && step_ < end) save();
    if (epoch_ends || save_now) clock_->step_start = Clock::now();
  }
  flush();
  if (!evaluated && step_ > began) evaluate();
  if (!o_.save.empty() && saved_step_ != step_) save();
  std::vector<double> network{static_cast<double>(worker_.engine.counters().sent.bytes - bytes_before_)};
  worker_.engine.run("sum of all bytes", [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(network)); });
  summary_.bytes_network_total = static_cast<std::int64_t>(network[0]);
  if (stop_ && step_ < end) summary_.stopped = "interrupted";
  summary_.steps = step_;
  summary_.seconds = seconds_before_ + seconds_since(clock_->run_start);
  summary_.samples_per_s = training_seconds_ > 0 ? trained_samples_ / training_seconds_ : 0;
  summary_.exposed_share = training_seconds_ > 0 ? exposed_seconds_ / training_seconds_ : 0;
  if (observer_) observer_->on_end(summary_);
  return summary_;
}

EvalReport Trainer::evaluate() {
  flush();
  if (!o_.skip_nan) require_finite_parameters();
  const OutsideSteps outside(*this);
  const Trace::Span span("evaluation", "evaluation");
  EvalSums sums;
  {
    const MeanBuffers mean(*this);
    workload_.model().set_watch(nullptr);  // one span for all of it
    sums = workload_.evaluate();
    if (forward_spans_) workload_.model().set_watch(&forward_spans_->watch);
  }
  std::vector<double> all{sums.samples, sums.loss, sums.wrong_top1, sums.wrong_top5, o_.stop_requested && o_.stop_requested() ? 1.0 : 0.0};
  worker_.engine.run("sum of the evaluation", [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(all)); });
  if (all[4] > 0) stop_ = true;
  const double n = std::max(1.0, all[0]);
  EvalReport report;
  report.epoch = (step_ + steps_per_epoch() - 1) / std::max<std::int64_t>(1, steps_per_epoch());
  report.loss = all[1] / n;
  report.top1_error = 100 * all[2] / n;
  if (workload_.has_top5()) report.top5_error = 100 * all[3] / n;
  report.seconds = seconds_before_ + seconds_since(clock_->run_start);
  report.bytes_sent_total = summary_.bytes_sent_total;
  summary_.last_eval = report;
  if (observer_) observer_->on_eval(report);
  return report;
}

// ---------------------------------------------------------------------------------------------------- checkpoints

void Trainer::save() {
  flush();
  const OutsideSteps outside(*this);
  const CheckpointStore store(o_.save);
  const auto meet = [&](const char* when) { worker_.engine.run(when, [](dist::Communicator& comm) { return dist::barrier(comm); }); };
  store.prepare(step_);
  meet("meeting before a checkpoint");  // an older one of this step no longer counts while its files are replaced
  StateDict state;
  state.merge(weights_of(workload_.model()), "model/");
  StateDict part;
  optimizer_->save(part);
  state.merge(part, "optimizer/");
  part = {};
  o_.schedule.save(part);
  state.merge(part, "schedule/");
  part = {};
  strategy_->save(part);
  state.merge(part, "strategy/");
  const std::int64_t totals[] = {summary_.bytes_sent_total, summary_.bytes_dense_total};
  state.set("run/bytes", Tensor::of({2}, std::span<const std::int64_t>(totals)));
  state.set_text("run/seconds", fmt::format("{:.6f}", seconds_before_ + seconds_since(clock_->run_start)));
  store.write_rank(step_, worker_.rank, state);
  {
    const MeanBuffers mean(*this);
    if (worker_.rank == 0) save_safetensors(weights_of(workload_.model()), store.weights_path());
  }
  meet("meeting in a checkpoint");  // every rank has written: now it may count
  if (worker_.rank == 0)
    store.complete({.step = step_,
                    .workers = worker_.size,
                    .threads = o_.threads,
                    .instruction_set = instruction_set(),
                    .fingerprint = fingerprint(),
                    .plan = plan_.json()});
  meet("meeting after a checkpoint");
  saved_step_ = step_;
}

void Trainer::require_same_training(const Manifest& manifest, const std::string& checkpoint) const {
  require<DataError>(manifest.workers == worker_.size, "resume: ", checkpoint, " is of ", manifest.workers, " workers, this run has ", worker_.size,
                     ". Start as many.");
  std::istringstream then(manifest.fingerprint), now(fingerprint());
  for (std::string a, b; std::getline(then, a) && std::getline(now, b);)
    require<DataError>(a == b || a.starts_with("plan="), "resume: ", checkpoint, " was trained with ", a, ", this run has ", b,
                       ". Give the same options.");
}

void Trainer::restore() {
  const std::string checkpoint = CheckpointStore::newest(o_.resume);
  const Manifest manifest = CheckpointStore::read_manifest(checkpoint);
  if (worker_.rank == 0 && (manifest.threads != o_.threads || manifest.instruction_set != instruction_set()))
    fmt::print(stderr, "laconic: warning: the checkpoint was written with {} threads on {}, this run has {} on {}: the last bits may differ\n",
               manifest.threads, manifest.instruction_set, o_.threads, instruction_set());
  const StateDict state = CheckpointStore::read_rank(checkpoint, worker_.rank);
  load_weights(workload_.model(), state.part("model/"), checkpoint, o_.model_name);
  optimizer_->load(state.part("optimizer/"));
  o_.schedule.load(state.part("schedule/"));
  strategy_->load(state.part("strategy/"));
  const Tensor& bytes = state.at("run/bytes");
  require<DataError>(bytes.dtype() == DType::i64 && bytes.elements() == 2, "resume: ", checkpoint, " has damaged totals.");
  summary_.bytes_sent_total = bytes.data<std::int64_t>()[0];
  summary_.bytes_dense_total = bytes.data<std::int64_t>()[1];
  seconds_before_ = std::atof(state.text("run/seconds").c_str());
  step_ = manifest.step;
  // Also a meeting: nobody writes, or removes what is old, while others still read.
  dist::check_fingerprint(worker_.engine, concat("resumed after step ", step_));
}

}  // namespace laconic
