// Tells a method about the training, and lists what all ranks and checkpoints must agree on.
#include "compress/codecs.h"
#include "core/precision.h"
#include "dist/trainer/server_half.h"
#include "dist/trainer/trainer.h"

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
  const OptimizerOptions& opt = o.optimizer;
  const bool served = method.traits().servers;
  return concat("seed=", o.seed, "\noptimizer=", opt.name, " momentum=", opt.momentum, " nesterov=", opt.nesterov,
                " decay=", opt.decay.weight_decay, " ", opt.decay.norm_and_bias, "\nlr=", o.lr,
                "\nschedule=", o.schedule.text(), "\nclip=", static_cast<int>(o.clip.kind), ":", o.clip.limit,
                "\naccumulate=", o.accumulate, "\ndropout=", o.dropout, "\nsync=", method.name(), "\nmean=", o.mean,
                "\non-nan=", o.skip_nan, "\nmethod=", method.name(), " ", method.fingerprint(),
                served ? "\nservers=" + (servers > 0 ? std::to_string(servers) : std::string("colocated")) : "",
                "\ncodec-feedback=", o.codec_feedback && !compress::traits_of(o.plan.codec).remembers,
                "\nplan=", o.plan_file.empty() ? dist::to_string(o.plan) : "of a file",
                "\nprecision=", to_string(matmul_precision()));
}

std::string run_fingerprint(const TrainerOptions& o) {
  const auto given = [](bool yes) { return yes ? "given" : "not given"; };
  return concat(
      "\nsteps=", o.steps ? concat(*o.steps) : "by epochs", "\nepochs=", o.epochs, "\nsave=", given(!o.save.empty()),
      "\nsave-every=", o.save_every ? concat(o.save_every->count, o.save_every->in_steps ? "it" : "") : "the end",
      "\nresume=", given(!o.resume.empty()), "\naudit=", o.audit_every, "\nledger=", o.ledger_every,
      "\ntrace=", given(o.trace != nullptr), "\ndump-gradients=", given(!o.dump_gradients.empty()), o.told_alike);
}

}  // namespace laconic
