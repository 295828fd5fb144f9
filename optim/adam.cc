#include <cmath>

#include "core/error.h"
#include "core/update.h"
#include "optim/optimizer.h"

namespace laconic {

Adam::Adam(const ParameterArena& arena, const Options& o)
    : Optimizer(arena), o_(o), first_(arena.make_state()), second_(arena.make_state()) {
  require<UsageError>(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1, name(), ": beta1 is ", o.beta1,
                      " and beta2 ", o.beta2, ", both must be from 0 up to but not 1.");
  require<UsageError>(o.eps >= 0 && std::isfinite(o.eps), name(), ": eps is ", o.eps, ", it must be 0 or more.");
  require<UsageError>(o.decay.weight_decay >= 0 && std::isfinite(o.decay.weight_decay), name(), ": weight decay is ",
                      o.decay.weight_decay, ", it must be 0 or more. Correct --weight-decay.");
}

void Adam::apply(const Part& part, double lr, double gradient_scale, std::int64_t t) {
  const double decay = o_.decay.of(part.info);
  raw::adam(part.value, part.gradient, part.of(first_), part.of(second_),
            {.gradient_scale = static_cast<float>(gradient_scale),
             .weight_decay = o_.decoupled ? 0.0f : static_cast<float>(decay),
             .beta1 = static_cast<float>(o_.beta1),
             .beta2 = static_cast<float>(o_.beta2),
             .eps = static_cast<float>(o_.eps),
             .step_size = static_cast<float>(lr / (1 - std::pow(o_.beta1, static_cast<double>(t)))),
             .root_correction = static_cast<float>(std::sqrt(1 - std::pow(o_.beta2, static_cast<double>(t)))),
             .keep = o_.decoupled ? static_cast<float>(1 - lr * decay) : 1.0f});
}

std::vector<StateDict::Entry> Adam::arenas() const { return {{"first_moment", first_}, {"second_moment", second_}}; }

}  // namespace laconic
