// A training describes itself: facts, fingerprints, memory, figures for people.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "compress/codecs.h"
#include "core/precision.h"
#include "core/base/processor.h"
#include "dist/trainer/servers.h"
#include "dist/trainer/trainer.h"
#include "dist/world.h"
#include "layers/summary.h"

namespace laconic {

dist::TrainingFacts facts_of(const TrainerOptions& o, int workers, int servers, std::int64_t steps_per_epoch) {
  dist::TrainingFacts f;
  f.workers = workers, f.servers = servers;
  f.optimizer = o.optimizer.name;
  f.momentum = o.optimizer.momentum, f.dampening = o.optimizer.dampening, f.nesterov = o.optimizer.nesterov;
  if (o.clip.kind == Clip::Kind::norm) f.clip_norm = o.clip.limit;
  if (o.clip.kind == Clip::Kind::value) f.clip_value = o.clip.limit;
  f.mean = o.mean, f.overlap = o.overlap, f.seed = o.seed;
  f.plan = o.plan, f.plan_file = o.plan_file, f.codec_feedback = o.codec_feedback;
  f.steps_per_epoch = steps_per_epoch, f.ledger_every = o.ledger_every;
  f.latency_seconds = o.latency_seconds, f.seconds_per_byte = o.seconds_per_byte;
  return f;
}

std::string fingerprint(const dist::Method& method, const TrainerOptions& o, int servers) {
  std::string allowed = "\nallow=sums";
  for (const dist::MethodChoice& choice : o.allowed.methods)
    allowed += concat(", ", choice.method->name(), " ", choice.method->fingerprint());
  const OptimizerOptions& opt = o.optimizer;
  const bool served = method.traits().servers;
  return concat("seed=", o.seed, "\noptimizer=", opt.name, " momentum=", opt.momentum, " nesterov=", opt.nesterov,
                " decay=", opt.decay.weight_decay, " ", opt.decay.norm_and_bias, "\nbetas=", opt.beta1, " ", opt.beta2,
                "\nlr=", o.lr_rule.empty() ? concat(o.lr) : o.lr_rule, "\nschedule=", o.schedule.text(),
                "\nclip=", static_cast<int>(o.clip.kind), ":", o.clip.limit, "\naccumulate=", o.accumulate,
                "\nepoch-steps=", o.epoch_steps ? concat(*o.epoch_steps) : "all", "\ndropout=", o.dropout,
                "\nsync=", method.name(), "\nmean=", o.mean, "\non-nan=", o.skip_nan, "\nmethod=", method.name(), " ",
                method.fingerprint(),
                served ? "\nservers=" + (servers > 0 ? std::to_string(servers) : std::string("colocated")) : "",
                "\ncodec-feedback=", o.codec_feedback && !compress::traits_of(o.plan.codec).remembers, "\nplan=",
                o.plan_file.empty()         ? dist::to_string(o.plan)
                : o.plan_file == kAutomatic ? kAutomatic
                                            : "of a file",
                allowed, "\nprecision=", to_string(matmul_precision()));
}

std::string run_fingerprint(const TrainerOptions& o) {
  const auto given = [](bool yes) { return yes ? "given" : "not given"; };
  return concat("\nsteps=", o.steps ? concat(*o.steps) : "by epochs", "\nepochs=", o.epochs,
                "\neval-every=", o.eval_every, "\nsave=", given(!o.save.empty()), "\nkeep=", o.keep, "\nsave-every=",
                o.save_every ? concat(o.save_every->count, o.save_every->in_steps ? "it" : "") : "the end",
                "\nresume=", given(!o.resume.empty()), "\nreplan=", given(o.replan), "\naudit=", o.audit_every,
                "\nledger=", o.ledger_every, "\ntrace=", given(o.trace != nullptr),
                "\ndump-gradients=", given(!o.dump_gradients.empty()), o.told_alike);
}

std::string Trainer::fingerprint() const {
  const std::string own = o_.own_settings.empty() ? "" : concat("own settings=", o_.own_settings, "\n");
  return concat("model=", o_.model_name, "\n", own, "parameters=", arena_->elements(), "\n", workload_.fingerprint(),
                "\n", laconic::fingerprint(*method_, o_, worker_.servers()));
}

bool Trainer::bytes_counted() const {
  return worker_.size == 1 || !is_.joins || is_.servers ||
         !(plan_.has(dist::Carrier::mpi) || (plan_.has(dist::Carrier::nccl) && plan_.codec == "none"));
}

RunInfo Trainer::info() const {
  RunInfo info;
  info.model = o_.model_name;
  info.strategy = method_->describe(facts_);
  if (plan_.codec != "none") info.strategy += concat(", ", plan_.codec, o_.codec_feedback ? " with feedback" : "");
  if (is_.joins && o_.overlap != dist::Overlap::forward)
    info.strategy += o_.overlap == dist::Overlap::none ? ", no overlap" : ", overlap with backward only";
  info.transport = dist::ranks_under_mpirun() > 0 ? "mpi" : "threads";
  info.parameters = arena_->elements();
  for (const auto& p : arena_->parameters())
    if (p->info.output && p->info.shape.rank() == 2) info.classes = p->info.shape[0];
  workload_.describe(info);
  info.device = o_.device.kind == Device::Kind::cuda ? processor() : to_string(o_.device);
  info.workers = worker_.size;
  info.threads = o_.threads;
  info.accumulate = static_cast<int>(o_.accumulate);
  info.batch = static_cast<int>(workload_.batch());
  info.steps_per_epoch = steps_per_epoch();
  info.total_steps = last_step();
  info.first_step = step_, info.steps_ahead = facts_.steps_ahead;
  info.exchange_every = is_.every;
  info.overlap = dist::to_string(o_.overlap);
  info.bytes_counted = bytes_counted();
  info.receipt = receipt_;
  info.replans = o_.replan;
  return info;
}

std::string Trainer::processor() const {
  return o_.device.kind == Device::Kind::cuda ? cuda_device_name(o_.device.index) : cpu::instruction_set();
}

double Trainer::MemoryNeed::total() const {
  return std::accumulate(parts.begin(), parts.end(), 0.0, [](double sum, const auto& p) { return sum + p.second; });
}

Trainer::MemoryNeed Trainer::memory_need() const {
  MemoryNeed need;
  const auto add = [&](const std::string& what, double bytes) {
    if (bytes > 0) need.parts.emplace_back(what, bytes);
  };
  const auto bytes = static_cast<double>(arena_->size()) * sizeof(float);
  const double optimizer = optimizer_ ? bytes * o_.optimizer.arenas() : 0;
  add("parameters", bytes);
  add("gradients", bytes);
  add("optimiser", optimizer);
  add(is_.keeps[0] != '\0'    ? is_.keeps
      : plan_.codec != "none" ? "what encoding has lost"
                              : "the method's own",
      kept_bytes_);
  double messages = strategy_->message_bytes(), served = 0;
  if (const ServerHalf* const half = servers_->half()) served = half->bytes(), messages += half->message_bytes();
  add("server", served);
  const bool known = worker_.engine.size() == 1 || !bytes_counted() ||
                     method_->expected_bytes(plan_, arena_->parameters(), facts_).has_value();
  add(known ? "messages" : "messages at most", messages);
  if (!known) need.at_most = messages;
  need.server = servers_->dedicated_bytes(*method_, facts_, o_);
  arena_->set_listener(nullptr);  // nothing is computed, and nobody is to be told of gradients
  const std::int64_t most = (info().train_samples + worker_.size - 1) / worker_.size;
  const std::int64_t samples = std::clamp<std::int64_t>(most, 1, workload_.batch());
  const std::ptrdiff_t before = bytes_made_here();
  const std::function<Tensor()> loss = workload_.ghost_loss(samples);
  add("batches", static_cast<double>(workload_.batches_held()) * static_cast<double>(bytes_made_here() - before));
  add(o_.checkpoint_activations ? "activations (recomputed in backward)" : "activations",
      static_cast<double>(peak_activation_bytes(loss)));
  arena_->begin_step();
  arena_->set_listener(listener());
  if (o_.save_every && !o_.save.empty() && o_.device.kind != Device::Kind::cuda)
    add("a copy to save", 2 * bytes + optimizer + kept_bytes_ + served);  // rank 0's weights have a file of their own
  return need;
}

void Trainer::require_memory(double bytes_per_worker) const {
  const int here = dist::ranks_under_mpirun() > 0 ? 1 : worker_.size;
  const double gib = 1.0 / (1 << 30), need = bytes_per_worker * here;
  require<UsageError>(
      o_.memory == 0 || need <= static_cast<double>(o_.memory),
      fmt::format("{} worker{} about {:.1f} GiB, this machine has {:.1f} free ({}): take {}a smaller {}", here,
                  here == 1 ? " needs" : "s need", need * gib, static_cast<double>(o_.memory) * gib,
                  here == 1 ? "`batch`" : "`workers`", here == 1 ? "" : "fewer, or ",
                  here == 1 ? "one, or a smaller model" : "`batch`"));
}

std::string Trainer::description() const {
  const MemoryNeed need = memory_need();
  const auto mib = [](double bytes) { return fmt::format("{:.1f} MiB", bytes / (1 << 20)); };
  constexpr double kOfKernels = 24 << 20;  // that their libraries and MPI's take in a training, of two models
  const bool knows = o_.device.kind != Device::Kind::cuda && o_.memory_taken > 0;
  const double taken = knows ? static_cast<double>(o_.memory_taken) + kOfKernels : 0;
  const int here = dist::ranks_under_mpirun() > 0 ? 1 : worker_.size;
  std::string memory = fmt::format("memory of a worker: {}", mib(need.total() + (here == 1 ? taken : 0)));
  for (const auto& [what, bytes] : need.parts)
    memory += fmt::format("{} {} {}", &what == &need.parts.front().first ? ":" : ",", what, mib(bytes));
  if (taken > 0 && here == 1) memory += ", code, libraries and data " + mib(taken);
  if (taken > 0 && here > 1)
    memory += fmt::format("\nmemory of the process: {}: {} workers, and code, libraries and data {}",
                          mib(need.total() * here + taken), here, mib(taken));
  if (need.server > 0)
    memory +=
        "\nmemory of a server: " + mib(need.server + (here == 1 && knows ? static_cast<double>(o_.memory_taken) : 0));
  const std::optional<double> sent =
      worker_.engine.size() == 1 ? 0.0 : method_->expected_bytes(plan_, arena_->parameters(), facts_);
  std::string rates;
  const std::int64_t last = last_step();
  for (const std::int64_t step : std::set<std::int64_t>{1, std::min<std::int64_t>(100, last), last})
    if (step >= 1) rates += fmt::format("{}{:.3g} in step {}", rates.empty() ? "" : ", ", rate_at(step), step);
  return fmt::format(
      "{}: {} parameters, {} worker{}, {} steps per epoch, {} steps\n"
      "learning rate: {}\n"
      "{}\n"
      "bytes sent per worker and step: {}\n"
      "buffers that messages are copied into: {:.2f} MB\n{}",
      o_.model_name, arena_->elements(), worker_.size, worker_.size == 1 ? "" : "s", steps_per_epoch(), last, rates,
      memory,
      sent                             ? fmt::format("about {:.2f} MB", *sent / 1e6)
      : bytes_counted()                ? "as the gradients come"
      : plan_.has(dist::Carrier::nccl) ? "not counted, NCCL moves them"
                                       : "not counted, MPI's own allreduce moves them",
      !is_.joins || is_.servers ? 0.0 : static_cast<double>(plan_.copied_bytes(arena_->parameters())) / 1e6,
      receipt_    ? receipt_->text()
      : is_.joins ? plan_.table()
                  : "no exchange (--sync " + method_->name() + ")\n");
}

}  // namespace laconic
