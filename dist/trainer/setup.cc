#include "dist/trainer/setup.h"

#include <fmt/format.h>

#include <cmath>
#include <exception>

#include "core/base/parallel.h"
#include "core/base/trace.h"
#include "core/raw.h"
#include "dist/collective/meeting.h"
#include "dist/engine/busy.h"
#include "dist/world.h"
#include "layers/foreign_weights.h"

namespace laconic {
namespace {

/// What made a parameter no number in the last update, as far as it is known, and what helps.
std::string cause(const Setup& s, const Parameter& p) {
  const bool brought_finite = s.probes && s.probes->saw_finite(p);
  if (s.is.joins && s.worker.size > 1 && brought_finite && !raw::all_finite(p.grad()))
    return concat("Its gradient was finite on rank ", s.worker.rank, ", and after the exchange of step ", s.now.step,
                  " it was not: take `codec` bf16 or none, or another `sync` than ", s.method->name(), ".");
  return "Lower `lr`, or clip gradients (`clip` norm:5).";
}

}  // namespace

Setup::Setup(dist::Worker& its_worker, Workload& its_workload, std::shared_ptr<const dist::Method> its_method,
             const TrainerOptions& options)
    : worker(its_worker),
      workload(its_workload),
      method(std::move(its_method)),
      is(method->traits()),
      o(require_sense(options, *method, worker.servers())),
      bytes_before(worker.engine.counters().sent.bytes),
      timetable(o, workload, worker.size),
      facts(facts_of(o, worker.size, worker.servers(), timetable.steps_per_epoch())) {
  const dist::Busy busy(dist::Busy::With::work, kPrepares);
  method->check(facts), o.allowed.check(facts);
  set_kernel_threads(o.threads);
  make_model();
  agree_on_options();
  checkpoints = std::make_unique<Checkpointing>(worker, o);
  checkpoints->claim(fingerprint);
  agree_on_plan();
  make_strategy();
  arena->set_listener(listener());
  if (o.memory > 0 && (worker.rank == 0 || dist::ranks_under_mpirun() > 0)) require_memory(memory_need().least());
  if (checkpoints->resumed())
    restore();
  else
    make_equal();
}

Setup::~Setup() {
  if (!servers || std::uncaught_exceptions() > 0) return;
  try {
    servers->tell({.kind = dist::Command::Kind::end});
  } catch (...) {  // the engine has failed: they know
  }
}

/// Rank 0's model has its first values now; others receive them later (make_equal).
void Setup::make_model() {
  require<UsageError>(o.device.kind != Device::Kind::cuda || o.device.index < cuda_devices(), "there is no device ",
                      o.device, " (`device`): ", cuda_devices() == 0 ? "use `device` cpu" : "give a lower number");
  Module& model = workload.model();
  double bytes = 0;
  for (const auto& [name, tensor] : model.state_dict()) bytes += static_cast<double>(tensor.bytes());
  require_memory(bytes * (2 + (is.workers_update ? o.optimizer.arenas() : 0)));  // before any of it is written
  context = {.seed = o.seed, .dropout = o.dropout};
  model.set_context(&context);
  in_context = {&model, [](Module* m) { m->set_context(nullptr); }};
  // Whoever measures layers needs numbers before a plan is made.
  if (o.plan_file == kAutomatic || (worker.rank == 0 && !o.describes_only)) model.initialize(o.seed);
  if (!o.init.empty() && worker.rank == 0) {
    const dist::Busy reading(dist::Busy::With::files, "reads its weights", [this] { return o.init; });
    const auto [weights, notes] = weights_for(model, WeightsFile(o.init), o.model_name);
    for (const std::string& note : notes) fmt::print(stderr, "laconic: note: {}\n", note);
    load_weights(model, weights, o.init, o.model_name, o.new_head);
    require_same_vocabulary(weights);
  }
  arena = std::make_unique<ParameterArena>(model.parameters(), o.device);
  require<UsageError>(arena->elements() > 0, o.model_name, ": there is nothing to train: every parameter is frozen.");
  model.to(o.device);
  workload.set_device(o.device);
  model.checkpoint_activations(o.checkpoint_activations);
  if (is.workers_update) optimizer = make_optimizer(*arena, o.optimizer);
}

void Setup::agree_on_options() {
  const std::string own = o.own_settings.empty() ? "" : concat("own settings=", o.own_settings, "\n"),
                    of_options = laconic::fingerprint(*method, o, worker.servers()), run = run_fingerprint(o);
  fingerprint = concat("model=", o.model_name, "\n", own, "parameters=", arena->elements(), "\n",
                       workload.fingerprint(), "\n", of_options);
  if (worker.servers() > 0) dist::check_fingerprint(worker.engine, of_options + run, true);
  dist::check_fingerprint(worker, fingerprint + run, true);
  require<UsageError>(!o.save_every || !o.save.empty(),
                      "`save-every` says when to write to a folder (`save`): name one, or leave it out");
}

void Setup::make_strategy() {
  require<UsageError>(plan.sync.empty() || plan.sync == method->name(), "the plan was made for `sync` ", plan.sync,
                      ", and this is ", method->name(), " (`plan`): take `sync` ", plan.sync);
  require<UsageError>(is.chooses || !plan.sparse(), "the plan sends a choice of some parameters, and `sync` ",
                      method->name(), " sends all of them (`plan`): take the strategy that it was made for");
  require<UsageError>(plan.codec == "none" || is.codec, "sums of `sync` ", method->name(),
                      " pass through no codec, and the plan's is ", plan.codec,
                      " (`codec`): leave it out, or take `sync` allreduce");
  require<UsageError>(plan.codec != "none" || !o.codec_feedback || o.plan_file == kAutomatic,
                      "without a codec nothing is lost (`codec-feedback`): add `codec`, or leave it out");
  const bool method_clips = o.clip.kind == Clip::Kind::norm && is.limits_norm;
  updates = std::make_unique<Updates>(*arena, optimizer.get(), method_clips ? Clip() : o.clip);
  dist::WorkerSide side{.facts = facts, .arena = *arena, .engine = worker.engine, .plan = plan};
  side.update = [this](Parameter& p, Rows rows, const dist::StepContext& context) { updates->apply(p, rows, context); };
  if (optimizer) side.velocity = optimizer->momentum();
  if (optimizer && optimizer->has_moments())
    side.moments = {.form = [this](Parameter& p, Rows rows) { optimizer->form_moment(p, rows); },
                    .take =
                        [this](Parameter& p, Rows rows, const dist::StepContext& context, std::int64_t updates_of_v) {
                          const Trace::Span span(p.info.name, "update");
                          optimizer->take_moment(p, rows, context.lr, updates_of_v);
                        },
                    .freeze = [this] { optimizer->freeze_second_moment(); },
                    .thaw = [this](std::int64_t missed) { optimizer->thaw_second_moment(missed); }};
  side.weight_decay = [decay = o.optimizer.decay](const ParameterInfo& p) { return decay.of(p); };
  if (!o.dump_gradients.empty())
    side.watch = [this](const Parameter& p, Slice<const float> residual) {
      if (probes) probes->residual(p, residual);
    };
  servers = std::make_unique<Servers>(worker, plan, *arena);
  if (is.servers) servers->join(side, *method, o);
  const std::ptrdiff_t before = bytes_made_here();
  strategy = method->worker(std::move(side));
  kept_bytes = static_cast<double>(bytes_made_here() - before);
  const GradientProbes::Options probe{
      .rank = worker.rank,
      // A value that is clipped may be infinite before, and a device's is not waited for.
      .watch = !o.skip_nan && o.clip.kind != Clip::Kind::value && o.device == kCpu,
      .stops = is.plan_is_all || is.servers,
      .counts = o.count_gradients && worker.rank == 0,
      .dump = worker.rank == 0 ? o.dump_gradients : ""};
  if (probe.any()) probes = std::make_unique<GradientProbes>(*strategy, probe);
}

/// Rank 0's parameters and buffers on every rank.
void Setup::make_equal() {
  const auto send = [&](const char* what, const Tensor& tensor) {
    const Slice<std::byte> bytes(static_cast<std::byte*>(tensor.raw_data()), tensor.bytes(), tensor.device());
    worker.run(
        what, [&](dist::Communicator& comm) { return dist::broadcast(comm, bytes); }, tensor.device());
    tensor.bump_version();  // what kernels have made of it is of other values
  };
  if (worker.size > 1) {
    send("broadcast of the weights", arena->values());
    arena->changed();
    const Module& model = workload.model();
    for (const auto& p : model.parameters())
      if (p->frozen()) send("broadcast of frozen weights", p->value());
    for (const auto& [name, tensor] : model.named_buffers()) send("broadcast of buffers", tensor);
  }
  servers->give_values();
}

void Setup::start_data(std::int64_t epoch, std::int64_t batch) {
  const dist::Busy busy(dist::Busy::With::files, "waits for its data");
  workload.start(epoch, batch);
}

void Setup::audit() {
  strategy->flush();
  if (!is.joins) return;
  const auto equal_everywhere = [&](const char* what) {
    std::uint64_t hash = checksum({});  // parameter by parameter: padding left out
    for (const auto& p : arena->parameters()) hash = checksum(p->value().slice(), hash);
    dist::check_fingerprint(worker, concat(what, " after step ", now.step, "=", hash));
  };
  if (is.same_bits) equal_everywhere("parameters");
  strategy->show_joint_model();
  if (strategy->drift()) equal_everywhere("the joint model");
  servers->audit(now.step);
  strategy->hide_joint_model();
}

void Setup::report_non_finite(float loss) {
  arena->set_listener(nullptr);  // what is under way may hold this step's gradients: forward is to wait for none
  const std::string what =
      concat("training: the loss is ", std::isnan(loss) ? "not a number" : "infinite", " at step ", now.step + 1, "; ");
  for (auto it = arena->parameters().rbegin(); it != arena->parameters().rend(); ++it)
    if (!raw::all_finite((*it)->value()))
      throw Error(
          concat(what, "the first parameter that is not finite is ", (*it)->info.name, ". ", cause(*this, **it)));
  std::string first;
  const ForwardWatch watch = [&](const std::string& path, const Tensor& output) {
    if (first.empty() && is_real(output.dtype()) && !raw::all_finite(output)) first = path;
  };
  workload.pass_over();
  {
    const Watched watched(workload.model(), watch);
    const NoGrad no_grad;
    workload.loss();
  }
  throw Error(concat(what,
                     first.empty() ? "every layer's output is finite, the loss itself is not"
                                   : "it shows first in the output of layer " + first,
                     ". Lower `lr`, clip gradients (`clip` norm:5), or pass over such steps (`on-nan` skip)."));
}

void Setup::require_finite_weights() const {
  if (!raw::all_finite(arena->values()))
    for (const auto& p : arena->parameters())
      if (!raw::all_finite(p->value()))
        throw Error(concat("training: after step ", now.step, " the parameter ", p->info.name, " is not finite. ",
                           cause(*this, *p)));
  for (const auto& [name, tensor] : workload.model().named_buffers())
    require<Error>(tensor.dtype() != DType::f32 || raw::all_finite(tensor), "training: after step ", now.step,
                   " the buffer ", name, " is not finite. Lower `lr`, or clip gradients (`clip` norm:5).");
}

}  // namespace laconic
