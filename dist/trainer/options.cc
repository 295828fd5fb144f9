#include "dist/trainer/options.h"

#include "compress/codecs.h"
#include "core/precision.h"

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
  return concat(
      "\nsteps=", o.steps ? concat(*o.steps) : "by epochs", "\nepochs=", o.epochs, "\neval-every=", o.eval_every,
      "\nsave=", given(!o.save.empty()), "\nkeep=", o.keep,
      "\nsave-every=", o.save_every ? concat(o.save_every->count, o.save_every->in_steps ? "it" : "") : "the end",
      "\nresume=", given(!o.resume.empty()), "\naudit=", o.audit_every, "\nledger=", o.ledger_every,
      "\ntrace=", given(o.trace != nullptr), "\ndump-gradients=", given(!o.dump_gradients.empty()), o.told_alike);
}

const TrainerOptions& require_sense(const TrainerOptions& o, const dist::Method& method, int servers) {
  require<UsageError>(
      o.accumulate >= 1 && o.epoch_steps.value_or(1) >= 1 && (!o.save_every || o.save_every->count >= 1),
      "`accumulate`, `epoch-steps` and `save-every` count from 1: give at least that");
  require<UsageError>(o.eval_every == 1 || !o.schedule.needs_metric(), "`schedule` ", o.schedule.text(),
                      " goes by the loss of every epoch: leave `eval-every` at 1.");
  require<UsageError>(method.traits().servers || servers == 0, "`sync` ", method.name(), " has no use for ", servers,
                      " servers (`servers`): leave them out, or take `sync` ps");
  return o;
}

}  // namespace laconic
