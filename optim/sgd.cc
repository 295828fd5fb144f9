#include <cmath>

#include "core/error.h"
#include "core/update.h"
#include "optim/optimizer.h"

namespace laconic {

Sgd::Sgd(const ParameterArena& arena, const Options& o) : Optimizer(arena), o_(o) {
  require<UsageError>(o.momentum >= 0 && o.momentum < 1, "sgd: momentum is ", o.momentum,
                      ", it must be from 0 up to but not 1. Correct --momentum.");
  require<UsageError>(std::isfinite(o.dampening), "sgd: dampening is ", o.dampening, ", it must be finite.");
  require<UsageError>(o.decay.weight_decay >= 0 && std::isfinite(o.decay.weight_decay), "sgd: weight decay is ",
                      o.decay.weight_decay, ", it must be 0 or more. Correct --weight-decay.");
  require<UsageError>(!o.nesterov || (o.momentum > 0 && o.dampening == 0), "sgd: nesterov with momentum ", o.momentum,
                      " and dampening ", o.dampening, ". It needs momentum above 0 and no dampening.");
  if (o.momentum > 0) momentum_ = arena.make_state();
}

void Sgd::apply(const Part& part, double lr, double gradient_scale, std::int64_t t) {
  raw::sgd(part.value, part.gradient, momentum_.defined() ? part.of(momentum_) : Tensor(),
           {.lr = static_cast<float>(lr),
            .gradient_scale = static_cast<float>(gradient_scale),
            .weight_decay = static_cast<float>(o_.decay.of(part.info)),
            .momentum = static_cast<float>(o_.momentum),
            .dampening = static_cast<float>(o_.dampening),
            .nesterov = o_.nesterov,
            // else 0 in the buffer does the same, and what a strategy put there stays
            .first = t == 1 && o_.dampening != 0});
}

std::vector<StateDict::Entry> Sgd::arenas() const {
  if (!momentum_.defined()) return {};
  return {{"momentum", momentum_}};
}

}  // namespace laconic
