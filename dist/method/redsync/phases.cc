#include "dist/method/redsync/phases.h"

#include "core/raw.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/engine/engine.h"

namespace laconic::dist {

void begin_sparse_phase(const WorkerSide& side, const ResidualTensor& tensor) {
  const Tensor& velocity = tensor.velocity();  // a sum over workers is to be the common one
  if (velocity.defined() && !side.facts.mean) raw::scale(velocity, 1.0f / static_cast<float>(side.engine.size()));
}

void begin_dense_phase(const WorkerSide& side, const ResidualTensor& tensor, Parameter& p, const StepContext& context) {
  const auto sum = [&](const char* what, const Tensor& x) {
    side.engine.run(
        what + p.info.name, [&](Communicator& comm) { return ring_allreduce(comm, x.slice()); }, x.device());
  };
  const auto scale = static_cast<float>(context.gradient_scale);
  sum("sending the residual of ", tensor.residual());
  raw::axpy(p.value().range(0, p.info.elements), -static_cast<float>(context.lr) * scale, tensor.residual());
  side.arena.changed(p.info.index, 1);
  raw::fill(tensor.residual(), 0.0f);
  if (!tensor.velocity().defined()) return;
  sum("joining the velocities of ", tensor.velocity());
  raw::scale(tensor.velocity(), scale);
}

void send_along(const ResidualTensor& tensor, Parameter& p, Rows rows) {
  const auto [first, count] = p.info.part(rows);
  const Tensor rest = tensor.residual().range(first, count);
  raw::axpy(p.grad().range(first, count), 1.0f, rest);
  raw::fill(rest, 0.0f);
}

}  // namespace laconic::dist
