#include "dist/sync/none.h"

#include <utility>

namespace laconic::dist {

NoSync::NoSync(const ParameterArena& arena, Update update)
    : arena_(arena), update_(std::move(update)), pending_(arena.parameters().size()) {}

void NoSync::gradient_ready(Parameter& parameter, Rows rows) {
  Pending& pending = pending_[static_cast<std::size_t>(parameter.info.index)];
  pending.rows += rows.count;
  pending.context = context_;
}

void NoSync::before_forward(Parameter& parameter, Rows) {
  Pending& pending = pending_[static_cast<std::size_t>(parameter.info.index)];
  if (pending.rows < parameter.all_rows().count) return;
  pending.rows = 0;
  const auto begin = std::chrono::steady_clock::now();
  update_(parameter, parameter.all_rows(), pending.context);
  update_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void NoSync::end_step(StepStats& stats) { stats = {.update_ms = 1e3 * std::exchange(update_seconds_, 0.0)}; }

void NoSync::flush() {
  for (const auto& p : arena_.parameters()) before_forward(*p, p->all_rows());
}

}  // namespace laconic::dist
