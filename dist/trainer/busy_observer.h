#pragma once
#include "dist/engine/busy.h"
#include "dist/trainer/report.h"

namespace laconic {

/// Passes each report on to another observer. Meanwhile this rank is busy, for that one may write to a slow disk, or
/// export a model.
class BusyObserver final : public Observer {
 public:
  explicit BusyObserver(Observer& to) : to_(to) {}
  void on_start(const RunInfo& r) override { tell(&Observer::on_start, r); }
  void on_step(const StepReport& r) override { tell(&Observer::on_step, r); }
  void on_eval(const EvalReport& r) override { tell(&Observer::on_eval, r); }
  void on_test(const EvalReport& r) override { tell(&Observer::on_test, r); }
  void on_ranks(const RanksReport& r) override { tell(&Observer::on_ranks, r); }
  void on_ledger(const LedgerReport& r) override { tell(&Observer::on_ledger, r); }
  void on_contradiction(const Contradiction& r) override { tell(&Observer::on_contradiction, r); }
  void on_plan(const dist::Receipt& r) override { tell(&Observer::on_plan, r); }
  void on_end(const RunSummary& r) override { tell(&Observer::on_end, r); }

 private:
  template <class Report>
  void tell(void (Observer::*on)(const Report&), const Report& report) {
    const dist::Busy busy(dist::Busy::With::files, "writes its report");
    (to_.*on)(report);
  }
  Observer& to_;
};

}  // namespace laconic
