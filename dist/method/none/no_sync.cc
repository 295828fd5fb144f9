#include "dist/method/none/no_sync.h"

#include <algorithm>
#include <utility>

#include "core/base/clock.h"
#include "dist/method/method.h"

namespace laconic::dist {

NoSync::NoSync(const ParameterArena& arena, Update update)
    : arena_(arena), update_(std::move(update)), pending_(arena.parameters().size()) {}

void NoSync::gradient_ready(Parameter& parameter, Rows rows) {
  Pending& pending = pending_[static_cast<std::size_t>(parameter.info.index)];
  if (!pending.rows.empty() && pending.rows.back().first + pending.rows.back().count == rows.first)
    pending.rows.back().count += rows.count;
  else
    pending.rows.push_back(rows);
  pending.context = context_;
}

void NoSync::before_forward(Parameter& parameter, Rows rows) {
  Pending& pending = pending_[static_cast<std::size_t>(parameter.info.index)];
  if (pending.rows.empty()) return;
  const auto begin = Clock::now();
  std::vector<Rows> rest;
  const std::int64_t end = rows.first + rows.count;
  for (const Rows ready : std::exchange(pending.rows, {})) {
    const std::int64_t from = std::max(ready.first, rows.first), to = std::min(ready.first + ready.count, end);
    if (from >= to) {
      rest.push_back(ready);
      continue;
    }
    if (ready.first < from) rest.push_back({ready.first, from - ready.first});
    if (to < ready.first + ready.count) rest.push_back({to, ready.first + ready.count - to});
    update_(parameter, {from, to - from}, pending.context);
  }
  pending.rows = std::move(rest);
  update_seconds_ += seconds_since(begin);
}

void NoSync::flush() {
  for (const auto& p : arena_.parameters()) before_forward(*p, p->all_rows());
}

namespace {

/// Each worker trains by itself, and nothing travels: what computing takes alone.
class NoSyncMethod final : public Method {
 public:
  std::string name() const override { return "none"; }
  std::string summary() const override { return "each worker trains by itself"; }
  Traits traits() const override { return {.joins = false, .same_bits = false, .on_ghosts = true}; }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    return std::make_unique<NoSync>(side.arena, std::move(side.update));
  }
  std::optional<double> expected_bytes(const Plan&, const std::vector<std::shared_ptr<Parameter>>&,
                                       const TrainingFacts&) const override {
    return 0;
  }
};

}  // namespace

std::unique_ptr<Method> make_none() { return std::make_unique<NoSyncMethod>(); }

}  // namespace laconic::dist
