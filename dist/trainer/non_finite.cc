// A training whose numbers have gone wrong: the first place where it shows.
#include <cmath>

#include "core/raw.h"
#include "dist/trainer/setup.h"

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
