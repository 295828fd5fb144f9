#include "dist/trainer/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <map>

#include "core/base/atomic_file.h"
#include "core/base/parallel.h"
#include "dist/collective/meeting.h"
#include "dist/trainer/busy_observer.h"
#include "dist/trainer/checkpointing.h"
#include "dist/trainer/evaluation.h"
#include "dist/trainer/rejoin.h"
#include "dist/trainer/servers.h"
#include "dist/trainer/spans.h"
#include "dist/world.h"

namespace laconic {

void require_use_for_servers(const dist::Method& method, int servers) {
  require<UsageError>(method.traits().servers || servers == 0, "`sync` ", method.name(), " has no use for ", servers,
                      " servers (`servers`): leave them out, or take `sync` ps");
}

static TrainerOptions checked(TrainerOptions o) {
  require<UsageError>(
      o.accumulate >= 1 && o.epoch_steps.value_or(1) >= 1 && (!o.save_every || o.save_every->count >= 1),
      "`accumulate`, `epoch-steps` and `save-every` count from 1: give at least that");
  return o;
}

Trainer::Trainer(dist::Worker& worker, Workload& workload, std::shared_ptr<const dist::Method> method,
                 TrainerOptions options, Observer* observer)
    : worker_(worker),
      workload_(workload),
      method_(std::move(method)),
      is_(method_->traits()),
      o_(checked(std::move(options))),
      facts_(facts_of(o_, worker.size, worker.servers(), steps_per_epoch())),
      losses_(o_.device),
      observer_(worker.rank == 0 && observer ? std::make_unique<BusyObserver>(*observer) : nullptr),
      figures_(worker, is_, summary_, observer_.get()),
      memory_(o_.device),
      bytes_before_(worker.engine.counters().sent.bytes) {
  const dist::Busy busy(dist::Busy::With::work, kPrepares);
  method_->check(facts_);
  o_.allowed.check(facts_);
  require<UsageError>(!o_.replan || o_.plan_file == kAutomatic, "only `plan` ", kAutomatic,
                      " chooses another plan (`replan`): leave it out, or add `plan` ", kAutomatic);
  require<UsageError>(o_.eval_every == 1 || !o_.schedule.needs_metric(), "`schedule` ", o_.schedule.text(),
                      " goes by the loss of every epoch: leave `eval-every` at 1.");
  require_use_for_servers(*method_, worker_.servers());
  require<UsageError>(o_.device.kind != Device::Kind::cuda || o_.device.index < cuda_devices(), "there is no device ",
                      o_.device, " (`device`): ", cuda_devices() == 0 ? "use `device` cpu" : "give a lower number");
  set_kernel_threads(o_.threads);
  Module& model = workload_.model();
  double weights = 0;
  for (const auto& [name, tensor] : model.state_dict()) weights += static_cast<double>(tensor.bytes());
  require_memory(weights * (2 + (is_.workers_update ? o_.optimizer.arenas() : 0)));  // before any of it is written
  context_ = {.seed = o_.seed, .dropout = o_.dropout};
  model.set_context(&context_);
  in_context_ = {&model, [](Module* m) { m->set_context(nullptr); }};
  // Others receive rank 0's (make_equal). Whoever measures layers needs numbers before that.
  if (o_.plan_file == kAutomatic || (worker_.rank == 0 && !o_.describes_only)) model.initialize(o_.seed);
  if (!o_.init.empty() && worker_.rank == 0) {
    const dist::Busy reading(dist::Busy::With::files, "reads its weights", [this] { return o_.init; });
    const StateDict weights = load_safetensors(o_.init);
    load_weights(model, weights, o_.init, o_.model_name, o_.new_head);
    require_same_vocabulary(weights);
  }
  arena_ = std::make_unique<ParameterArena>(model.parameters(), o_.device);
  require<UsageError>(arena_->elements() > 0, o_.model_name, ": there is nothing to train: every parameter is frozen.");
  model.to(o_.device);
  workload_.set_device(o_.device);
  model.checkpoint_activations(o_.checkpoint_activations);
  if (is_.workers_update) optimizer_ = make_optimizer(*arena_, o_.optimizer);
  fingerprint_ = fingerprint();
  const std::string run = run_fingerprint(o_);
  if (worker_.servers() > 0)
    dist::check_fingerprint(worker_.engine, laconic::fingerprint(*method_, o_, worker_.servers()) + run, true);
  dist::check_fingerprint(worker_, fingerprint_ + run, true);
  require<UsageError>(!o_.save_every || !o_.save.empty(),
                      "`save-every` says when to write to a folder (`save`): name one, or leave it out");
  checkpoints_ = std::make_unique<Checkpointing>(worker_, o_);
  checkpoints_->claim(fingerprint_);
  first_steps_per_epoch_ = std::max<std::int64_t>(1, steps_per_epoch());
  agree_on_plan();
  make_strategy();
  arena_->set_listener(listener());
  if (o_.memory > 0 && (worker_.rank == 0 || dist::ranks_under_mpirun() > 0)) require_memory(memory_need().least());
  figures_.reserve_slot();
  if (checkpoints_->resumed())
    restore();
  else
    make_equal();
  figures_.count_from_now(strategy_->costs());
}

Trainer::~Trainer() {
  figures_.abandon();
  if (std::uncaught_exceptions() == 0) {
    try {
      servers_->tell({.kind = dist::Command::Kind::end});
    } catch (...) {  // the engine has failed: they know
    }
  }
}

/// Rank 0 decides what travels how: as the checkpoint says that is resumed, or a file, or the options.
void Trainer::agree_on_plan() {
  const auto& resumed = checkpoints_->resumed();
  const bool goes_on = resumed && checkpoints_->same_ranks();  // else the plan was for others
  if (is_.asks_network && !facts_.latency_seconds && worker_.size > 1 && !goes_on) measure_network();
  dist::PlanOptions options = o_.plan;
  method_->shape(options, facts_);
  if (worker_.engine.size() == 1) options.chunk_bytes = 0;  // nothing travels, nothing is hidden
  if (resumed) {
    checkpoints_->require_same_training(fingerprint_, processor());
    find_position();
  }
  const bool chooses = o_.plan_file == kAutomatic;
  require<UsageError>(!chooses || is_.plan_is_all, "`plan` ", kAutomatic, " chooses for `sync` allreduce, and this is ",
                      method_->name(), ": leave one of the two out");
  std::string text;
  if (chooses && !goes_on) {
    dist::Allowed allowed = o_.allowed;
    const std::string taken = resumed ? dist::Plan::from_json(resumed->plan, arena_->parameters(), o_.resume).sync : "";
    if (resumed && taken.empty()) allowed.methods.clear();  // the method stays, with what its workers keep
    if (worker_.size > 1) {
      text = choose_plan(allowed, taken);
    } else if (const dist::MethodChoice* choice = allowed.find(taken)) {
      dist::Plan plan = dist::make_plan(arena_->parameters(), choice->options(1));
      plan.sync = taken, text = plan.json();
    }
  }
  if (worker_.rank == 0 && text.empty()) {
    if (o_.plan_file.empty() || chooses) {
      text = dist::make_plan(arena_->parameters(), options, worker_.size).json();
    } else {
      const auto given = text_of_file(o_.plan_file);
      require<DataError>(given.has_value(), "plan: cannot read ", o_.plan_file, " (`plan`). Check the path.");
      text = dist::Plan::from_json(*given, arena_->parameters(), o_.plan_file).json();
    }
    if (goes_on) {
      const std::string& folder = checkpoints_->folder();
      const std::string stored = dist::Plan::from_json(resumed->plan, arena_->parameters(), folder).json();
      if (stored != text && is_.joins && !chooses)
        fmt::print(stderr,
                   "laconic: note: messages travel by the plan that is stored in {}, not by the one of these options\n",
                   folder);
      text = stored;
    }
  }
  take_plan(meet(worker_.engine, "agreement on the plan", text)[0]);
  if (worker_.rank == 0 && resumed && !goes_on && is_.joins && !chooses) {
    const std::string then = dist::Plan::from_json(resumed->plan, arena_->parameters(), o_.resume).codec;
    if (then != plan_.codec)
      fmt::print(stderr, "laconic: note: the codec is {} now, and was {} when {} was written\n", plan_.codec, then,
                 checkpoints_->folder());
  }
  if (worker_.rank == 0 && worker_.size > 1 && (receipt_ || o_.replan))
    watch_.emplace(receipt_ ? std::optional(receipt_->step_ms) : std::nullopt, is_.period), figures_.watch(*watch_);
}

void Trainer::take_plan(const std::string& text) {
  plan_ = dist::Plan::from_json(text, arena_->parameters(), "the plan of rank 0");
  if (const dist::MethodChoice* choice = o_.allowed.find(plan_.sync); o_.plan_file == kAutomatic && choice)
    method_ = choice->method, is_ = method_->traits();
  require<UsageError>(!plan_.has(dist::Carrier::mpi) || !is_.joins || dist::ranks_under_mpirun() > 0,
                      "the algorithm mpi needs ranks that MPI has started (`allreduce`): start them with laconic "
                      "launch -n N, or use ring");
}

void Trainer::make_strategy() {
  require<UsageError>(plan_.sync.empty() || plan_.sync == method_->name(), "the plan was made for `sync` ", plan_.sync,
                      ", and this is ", method_->name(), " (`plan`): take `sync` ", plan_.sync);
  require<UsageError>(is_.chooses || !plan_.sparse(), "the plan sends a choice of some parameters, and `sync` ",
                      method_->name(), " sends all of them (`plan`): take the strategy that it was made for");
  require<UsageError>(plan_.codec == "none" || is_.codec, "sums of `sync` ", method_->name(),
                      " pass through no codec, and the plan's is ", plan_.codec,
                      " (`codec`): leave it out, or take `sync` allreduce");
  require<UsageError>(plan_.codec != "none" || !o_.codec_feedback || o_.plan_file == kAutomatic,
                      "without a codec nothing is lost (`codec-feedback`): add `codec`, or leave it out");
  dist::WorkerSide side{.facts = facts_, .arena = *arena_, .engine = worker_.engine, .plan = plan_};
  side.update = [this](Parameter& p, Rows rows, const dist::StepContext& context) { apply(p, rows, context); };
  if (optimizer_) side.velocity = optimizer_->momentum();
  if (optimizer_ && optimizer_->has_moments())
    side.moments = {.form = [this](Parameter& p, Rows rows) { optimizer_->form_moment(p, rows); },
                    .take =
                        [this](Parameter& p, Rows rows, const dist::StepContext& context, std::int64_t updates_of_v) {
                          const Trace::Span span(p.info.name, "update");
                          optimizer_->take_moment(p, rows, context.lr, updates_of_v);
                        },
                    .freeze = [this] { optimizer_->freeze_second_moment(); },
                    .thaw = [this](std::int64_t missed) { optimizer_->thaw_second_moment(missed); }};
  side.weight_decay = [decay = o_.optimizer.decay](const ParameterInfo& p) { return decay.of(p); };
  if (!o_.dump_gradients.empty())
    side.watch = [this](const Parameter& p, Slice<const float> residual) {
      if (dump_) dump_->residual(p, residual);
    };
  servers_ = std::make_unique<Servers>(worker_, plan_, *arena_);
  if (is_.servers) servers_->join(side, *method_, o_);
  const std::ptrdiff_t before = bytes_made_here();
  strategy_ = method_->worker(std::move(side));
  kept_bytes_ = static_cast<double>(bytes_made_here() - before);
  // A value that is clipped may be infinite before, and a device's is not waited for.
  if (!o_.skip_nan && o_.clip.kind != Clip::Kind::value && o_.device == kCpu)
    gradients_ = std::make_unique<GradientWatch>(*strategy_, worker_.rank, is_.plan_is_all || is_.servers);
  if (!o_.dump_gradients.empty() && worker_.rank == 0)
    dump_ = std::make_unique<GradientDump>(o_.dump_gradients, *listener());
  if (o_.count_gradients && worker_.rank == 0) counter_ = std::make_unique<GradientCounter>(*listener());
  evaluation_ = std::make_unique<Evaluation>(worker_, workload_, *strategy_, is_.joins, samples_);
}

/// Rank 0's parameters and buffers on every rank.
void Trainer::make_equal() {
  const auto send = [&](const char* what, const Tensor& tensor) {
    const Slice<std::byte> bytes(static_cast<std::byte*>(tensor.raw_data()), tensor.bytes(), tensor.device());
    worker_.run(
        what, [&](dist::Communicator& comm) { return dist::broadcast(comm, bytes); }, tensor.device());
    tensor.bump_version();  // what kernels have made of it is of other values
  };
  if (worker_.size > 1) {
    send("broadcast of the weights", arena_->values());
    arena_->changed();
    const Module& model = workload_.model();
    for (const auto& p : model.parameters())
      if (p->frozen()) send("broadcast of frozen weights", p->value());
    for (const auto& [name, tensor] : model.named_buffers()) send("broadcast of buffers", tensor);
  }
  servers_->give_values();
}

std::int64_t Trainer::steps_per_epoch() const {
  const std::int64_t all = (workload_.batches_per_epoch() + o_.accumulate - 1) / o_.accumulate;
  return o_.epoch_steps ? std::min(all, *o_.epoch_steps) : all;
}

std::int64_t Trainer::last_step() const {
  return o_.steps ? *o_.steps : o_.epochs * steps_per_epoch() - facts_.steps_ahead;
}

Schedule::Horizon Trainer::horizon() const {
  const std::int64_t per_epoch = std::max<std::int64_t>(1, steps_per_epoch());
  const std::int64_t by_epochs = o_.epochs * per_epoch, by_steps = o_.steps.value_or(0) + facts_.steps_ahead;
  return {.steps_per_epoch = per_epoch,
          .total_steps = std::max(by_epochs, by_steps),
          .iterations = static_cast<double>(first_steps_per_epoch_) / static_cast<double>(per_epoch),
          .ahead = by_steps > by_epochs ? facts_.steps_ahead : 0};
}

void Trainer::tell_of_a_long_warm_up() const {
  const double warmup = o_.schedule.warmup(horizon()) - static_cast<double>(facts_.steps_ahead);
  const std::int64_t last = last_step();
  if (worker_.rank == 0 && step_ < last && warmup > static_cast<double>(last))
    fmt::print(stderr,
               "laconic: warning: the warm-up ends with step {:.0f} and the training with step {}, where the learning "
               "rate is {:.3g} instead of {:.3g}\n",
               std::ceil(warmup), last, rate_at(last), o_.lr);
}

/// What of the data is left to train, and how many updates that takes these workers.
void Trainer::find_position() {
  const Manifest& m = *checkpoints_->resumed();
  if (!m.position) {
    require<DataError>(checkpoints_->same_ranks(), "resume: ", checkpoints_->folder(),
                       " is of an earlier version, which resumes with as many ranks only. Start ", m.workers,
                       " workers.");
    return;
  }
  first_steps_per_epoch_ = m.first_steps_per_epoch.value_or(
      std::max<std::int64_t>(1, std::llround(static_cast<double>(steps_per_epoch()) * worker_.size / m.workers)));
  if (o_.epoch_steps) first_steps_per_epoch_ = std::min(first_steps_per_epoch_, *o_.epoch_steps);
  DataPosition others = *m.position;
  std::int64_t own = 0;
  if (!others.trained.empty() && others.trained.back().workers == worker_.size) {
    own = others.trained.back().batches;
    others.trained.pop_back();
  }
  const auto updates = [&](std::int64_t batches) { return (batches + o_.accumulate - 1) / o_.accumulate; };
  const std::int64_t per_epoch = steps_per_epoch(), epoch = others.epoch;
  if (!others.trained.empty()) {
    rest_.batches = workload_.deal_rest(others);
    std::int64_t left = std::min(updates(rest_.batches), per_epoch);
    if (o_.epoch_steps) {
      std::int64_t may = *o_.epoch_steps;
      for (const Trained& t : others.trained) may -= updates(t.batches);
      left = std::clamp<std::int64_t>(may, 0, left);
    }
    rest_.first_update = per_epoch - left;
    rest_.position = std::move(others);
  }
  facts_.steps_ahead = epoch * per_epoch + first_update(epoch) + updates(own) - m.step;
}

DataPosition Trainer::position() const {
  DataPosition p{.epoch = epoch_of(step_)};
  if (p.epoch == rest_.position.epoch) p.trained = rest_.position.trained;
  const std::int64_t own = std::min(batch_at(step_), batches_in(p.epoch));
  if (own > 0) p.trained.push_back({worker_.size, own});
  return p;
}

ParameterListener* Trainer::listener() const {
  if (counter_) return counter_.get();
  if (dump_) return dump_.get();
  return gradients_ ? static_cast<ParameterListener*>(gradients_.get()) : strategy_.get();
}

double Trainer::seconds() const { return seconds_before_ + seconds_since(run_start_); }

bool Trainer::stopping() const { return evaluation_->stop_requested() || figures_.stop_requested(); }

RunSummary Trainer::run() {
  const std::int64_t end = last_step(), per_epoch = steps_per_epoch();
  std::optional<Trace::Thread> traced;
  std::optional<Spans> spans;
  if (o_.trace) {
    traced.emplace(o_.trace->row(worker_.rank, "compute"));
    spans.emplace(workload_.model(), spans_);
  }
  tell_of_a_long_warm_up();
  checkpoints_->begin();
  if (observer_) observer_->on_start(info());
  if (step_ < end) start_data(epoch_of(step_), batch_at(step_));
  run_start_ = Clock::now();
  evaluate_if_due();  // a stop has put it off
  figures_.restart_clock();
  if (worker_.rank == 0) memory_.begin();
  while (step_ < end && !stopping()) {
    if (o_.trace && o_.trace_steps)
      o_.trace->record(worker_.rank, step_ + 1 >= o_.trace_steps->first && step_ <= o_.trace_steps->second);
    train_step();
    const std::int64_t epochs = epoch_of(step_);  // that are done
    const bool epoch_ends = (step_ + facts_.steps_ahead) % per_epoch == 0;
    if (epoch_ends && o_.epoch_steps && step_ < end) start_data(epochs, 0);
    const bool save_now = o_.save_every && (o_.save_every->in_steps ? step_ % o_.save_every->count == 0
                                                                    : epoch_ends && epochs % o_.save_every->count == 0);
    evaluation_due_ = o_.eval_every > 0 && (step_ == end || (epoch_ends && epochs % o_.eval_every == 0));
    evaluate_if_due();
    if ((epoch_ends || save_now) && step_ < end) plan_anew_if_due();
    // Where nothing is joined no step tells the others that a part has been written.
    if (save_now && step_ < end) is_.joins ? begin_save(true) : save();
    if (!epoch_ends && !save_now) continue;
    figures_.restart_clock();
    if (worker_.rank == 0) memory_.begin();
  }
  flush();
  if (checkpoints_->saves()) save();
  bool complete = step_ >= end && !evaluation_due_;
  // A training that is resumed at its end has a result, too.
  if (complete && o_.eval_every > 0 && !summary_.last_eval) complete = evaluate(false, true).has_value();
  // A stop may have come during this test, so a resumed training makes it even where nothing was left to train.
  if (complete && o_.eval_every > 0 && workload_.has_test_for_the_end()) complete = evaluate(true, true).has_value();
  std::vector<double> network{static_cast<double>(worker_.engine.counters().sent.bytes - bytes_before_)};
  servers_->tell({.kind = dist::Command::Kind::total});
  worker_.engine.run("sum of all bytes",
                     [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(network)); });
  summary_.bytes_network_total = static_cast<std::int64_t>(network[0]);
  if (worker_.rank == 0) memory_.between_steps();  // there may have been no evaluation
  if (is_.joins && o_.joint_at_end) EvaluatedModel(worker_, workload_.model(), *strategy_, true, samples_).keep();
  servers_->tell({.kind = dist::Command::Kind::end});
  if (!complete) summary_.stopped = "interrupted";
  synchronize(o_.device);  // other threads may read the model now
  if (memory_.peak_bytes() > 0) {
    const int here = dist::ranks_under_mpirun() > 0 ? 1 : worker_.size;
    summary_.memory_bytes_peak = static_cast<std::int64_t>(memory_.peak_bytes());
    summary_.activation_bytes_peak = static_cast<std::int64_t>(memory_.activation_bytes()) / here;
  }
  summary_.ledger = strategy_->ledger(), summary_.ledger_form = method_->ledger();
  summary_.steps = step_;
  summary_.seconds = seconds();
  figures_.summarise();
  checkpoints_->end();
  if (observer_) observer_->on_end(summary_);
  return summary_;
}

void Trainer::evaluate_if_due() {
  if (!evaluation_due_) return;
  const std::optional<EvalReport> report = evaluate(false, true);
  evaluation_due_ = !report;
  if (report && (step_ + facts_.steps_ahead) % steps_per_epoch() == 0) o_.schedule.end_epoch(report->loss);
}

std::optional<EvalReport> Trainer::evaluate(bool at_the_end, bool may_stop) {
  if (at_the_end && !workload_.has_test_for_the_end()) return std::nullopt;
  flush();
  if (worker_.rank == 0) memory_.between_steps();   // an evaluation leaves weights in an order of its own
  finish_saving();                                  // no step would say for long that all parts are written
  if (may_stop && stopping()) return std::nullopt;  // who ends a run may kill it soon: it is to be saved first
  if (!o_.skip_nan) require_finite_weights();
  const StepFigures::Outside outside(figures_);
  const dist::Busy busy(dist::Busy::With::work, "evaluates");
  const Trace::Span span("evaluation", "evaluation");
  if (spans_) spans_->draw(false);  // one span for all of it
  servers_->tell({.kind = dist::Command::Kind::rest});
  const Stop never;
  const std::optional<EvalReport> report = evaluation_->measure(
      at_the_end, may_stop ? o_.stop_requested : never, [&](EvalReport& seen) { complete_and_tell(seen, at_the_end); });
  if (spans_) spans_->draw(true);
  if (worker_.rank == 0) memory_.between_steps();
  return report;
}

void Trainer::complete_and_tell(EvalReport& report, bool at_the_end) {
  require<Error>(o_.skip_nan || std::isfinite(report.loss), "evaluation: the loss is ",
                 std::isnan(report.loss) ? "not a number" : "infinite", " after step ", step_,
                 ". Lower `lr`, clip gradients (`clip` norm:5), or go on all the same (`on-nan` skip).");
  report.epoch = (step_ + facts_.steps_ahead + steps_per_epoch() - 1) / std::max<std::int64_t>(1, steps_per_epoch());
  report.seconds = seconds();
  report.bytes_sent_total = summary_.bytes_sent_total;
  report.bytes_counted = bytes_counted();
  (at_the_end ? summary_.test : summary_.last_eval) = report;
  if (!observer_) return;
  if (at_the_end) return observer_->on_test(report);
  observer_->on_eval(report);
  if (const auto rows = strategy_->ledger(); !rows.empty())
    observer_->on_ledger({.step = step_, .form = method_->ledger(), .rows = rows});
}

void Trainer::save() {
  if (checkpoints_->saved_step() != step_) begin_save(false);
  finish_saving();
}

void Trainer::finish_saving() {
  if (!checkpoints_->unfinished()) return;
  const StepFigures::Outside outside(figures_);
  servers_->tell({.kind = dist::Command::Kind::saved});
  checkpoints_->finish();
}

void Trainer::begin_save(bool while_training) {
  flush();
  finish_saving();  // its copies go before there are others
  require_finite_weights();
  const StepFigures::Outside outside(figures_);
  Manifest manifest{.step = step_,
                    .workers = worker_.size,
                    .threads = o_.threads,
                    .instruction_set = processor(),
                    .fingerprint = fingerprint_,
                    .plan = plan_.json(),
                    .position = position(),
                    .first_steps_per_epoch = first_steps_per_epoch_};
  StateDict weights;
  {
    const EvaluatedModel model(worker_, workload_.model(), *strategy_, is_.joins, samples_);
    if (worker_.rank == 0) weights = copy_of(this->weights());
  }
  servers_->tell({.kind = dist::Command::Kind::save, .step = step_});  // they take part in all the meetings
  dist::RankState state = this->state();
  if (servers_->half()) static_cast<StateDict&>(state).save("server/", *servers_->half());
  synchronize(o_.device);  // a thread with a stream of its own may read these
  checkpoints_->begin_write(while_training ? copy_of(state) : state, std::move(manifest), std::move(weights));
}

/// What this worker goes on with, its servers apart.
dist::RankState Trainer::state() const {
  using dist::Join;
  dist::RankState state(dist::Holders{worker_.rank, worker_.size});
  const Join each = is_.same_bits ? Join::equal : Join::own;
  const Join model = is_.same_bits || !is_.joins ? each : Join::mean;  // nothing that they have learned is left out
  const double weight = samples_.weight(worker_.size);
  const StateDict weights = this->weights();
  std::map<std::string, double> of_strategy;
  for (const auto& p : arena_->parameters())
    if (const auto own = strategy_->weight_in_mean(*p)) of_strategy[p->info.name] = *own;
  for (const auto& [name, tensor] : weights) {
    const auto own = of_strategy.find(name);
    state.set("model/" + name, tensor, model, own == of_strategy.end() ? weight : own->second);
  }
  for (const auto& [name, text] : weights.texts()) state.set_text("model/" + name, text);
  for (const auto& [name, tensor] : workload_.model().named_buffers())
    if (is_.joins && weights.contains(name)) state.set("model/" + name, tensor, Join::mean, weight);  // statistics
  if (optimizer_) {
    state.save("optimizer/", *optimizer_, each);
    const Tensor velocity = optimizer_->momentum();
    StateDict arenas;
    optimizer_->save(arenas);
    for (const auto& [name, tensor] : arenas)
      if (is_.same_bits && velocity.defined() && tensor.raw_data() == velocity.raw_data())
        state.set_in(strategy_->own_velocity(), "optimizer/" + name, tensor, facts_.put_by());
  }
  state.save("schedule/", o_.schedule, Join::equal);
  state.save("strategy/", *strategy_);
  state.save("workload/", workload_, Join::anew);
  state.set_numbers("run/bytes", std::array{summary_.bytes_sent_total, summary_.bytes_dense_total}, Join::own);
  state.set_numbers("run/passed_over", std::array{passed_over_}, is_.joins ? Join::equal : Join::own);
  state.set_numbers("run/samples", std::array{samples_.own, samples_.all}, Join::own);
  state.set_text("run/seconds", fmt::format("{:.6f}", seconds()));
  if (evaluation_due_) state.set_text("run/evaluation", "due");
  return state;
}

StateDict Trainer::weights() const {
  StateDict weights = workload_.model().state_dict();
  weights.set_text("model", o_.model_name);
  workload_.describe_weights(weights);
  return weights;
}

void Trainer::require_same_vocabulary(const StateDict& weights) const {
  StateDict own;
  workload_.describe_weights(own);
  const auto mine = own.texts().find("vocabulary"), theirs = weights.texts().find("vocabulary");
  require<DataError>(mine == own.texts().end() || theirs == weights.texts().end() || mine->second == theirs->second,
                     o_.init,
                     " was trained with other words or tokens, as many as this text has (`init`): give the text that "
                     "it was trained on");
}

void Trainer::tell_of_other_ranks() const {
  const Manifest& m = *checkpoints_->resumed();
  const auto all = [](int workers, int servers) {
    const std::string more = servers == 0 ? "" : fmt::format(" and {} server{}", servers, servers == 1 ? "" : "s");
    return fmt::format("{} worker{}{}", workers, workers == 1 ? "" : "s", more);
  };
  fmt::print(stderr, "laconic: note: resumes a checkpoint of {} with {}: what {} had put by is shared out anew{}\n",
             all(m.workers, m.files() - m.workers), all(worker_.size, worker_.servers()),
             m.workers == worker_.size ? "servers" : "they",
             rest_.position.epoch < 0 ? "" : fmt::format(", and so is the rest of epoch {}", rest_.position.epoch + 1));
}

void Trainer::restore() {
  const Manifest& manifest = *checkpoints_->resumed();
  const bool same_ranks = checkpoints_->same_ranks();
  const StateDict state =
      same_ranks ? checkpoints_->state() : rejoined(this->state(), checkpoints_->folder(), manifest, worker_.rank);
  load_weights(workload_.model(), state.part("model/"), checkpoints_->folder(), o_.model_name);
  if (optimizer_) optimizer_->load(state.part("optimizer/"));
  if (same_ranks && servers_->half()) servers_->half()->load(state.part("server/"));
  if (!same_ranks && is_.servers) {
    servers_->take_values(checkpoints_->folder(), manifest);
    servers_->give_values();
    if (servers_->half()) servers_->half()->rejoin(checkpoints_->folder(), manifest);
  }
  o_.schedule.load(state.part("schedule/"));
  strategy_->load(state.part("strategy/"));
  workload_.restore(state.part("workload/"));
  const std::vector<std::int64_t> bytes =
      state.numbers("run/bytes", 2, "the sum of bytes in " + checkpoints_->folder());
  summary_.bytes_sent_total = bytes[0], summary_.bytes_dense_total = bytes[1];
  if (state.contains("run/passed_over"))  // not of an earlier version
    passed_over_ =
        state.numbers("run/passed_over", 1, "the steps that were passed over in " + checkpoints_->folder())[0];
  if (manifest.workers == worker_.size && state.contains("run/samples")) {  // else all have the same statistics now
    const auto seen = state.numbers("run/samples", 2, "the samples that were seen until " + checkpoints_->folder());
    samples_ = {.own = seen[0], .all = seen[1]};
  }
  seconds_before_ = std::atof(state.text("run/seconds").c_str());
  evaluation_due_ = o_.eval_every > 0 && state.texts().contains("run/evaluation");
  step_ = manifest.step;
  if (rest_.position.epoch >= 0 && rest_.first_update == steps_per_epoch())  // too little was left for an update
    evaluation_due_ |= o_.eval_every > 0 && (rest_.position.epoch + 1) % o_.eval_every == 0;
  if (!same_ranks && worker_.rank == 0) tell_of_other_ranks();
  // Also a meeting: nobody writes, or removes what is old, while others still read.
  dist::check_fingerprint(worker_.engine, concat("resumed after step ", step_));
  audit();
}

}  // namespace laconic
