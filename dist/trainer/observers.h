#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "dist/engine/busy.h"
#include "dist/trainer/report.h"

namespace laconic {

/// Passes each report on to several observers, in their order. Meanwhile this rank is busy, for they may write to a
/// slow disk, or export a model.
class Observers final : public Observer {
 public:
  void add(std::shared_ptr<Observer> one) { all_.push_back(std::move(one)); }
  bool empty() const { return all_.empty(); }
  const RunInfo& info() const { return info_; }  ///< of the run that was begun last

  void on_start(const RunInfo& r) override { tell(&Observer::on_start, info_ = r); }
  void on_step(const StepReport& r) override { tell(&Observer::on_step, r); }
  void on_eval(const EvalReport& r) override { tell(&Observer::on_eval, r); }
  void on_test(const EvalReport& r) override { tell(&Observer::on_test, r); }
  void on_ranks(const RanksReport& r) override { tell(&Observer::on_ranks, r); }
  void on_ledger(const LedgerReport& r) override { tell(&Observer::on_ledger, r); }
  void on_end(const RunSummary& r) override { tell(&Observer::on_end, r); }

 private:
  template <class Report>
  void tell(void (Observer::*on)(const Report&), const Report& report) {
    for (const std::shared_ptr<Observer>& one : all_) {
      const dist::Busy busy(dist::Busy::With::files, "writes its report");
      ((*one).*on)(report);
    }
  }
  std::vector<std::shared_ptr<Observer>> all_;
  RunInfo info_;
};

}  // namespace laconic
