#include <fmt/format.h>

#include <vector>

#include "core/base/parse.h"
#include "dist/method/ef21/ef21.h"

namespace laconic::dist {
namespace {

/// What a selector has to be for C: it needs nothing but the values, and k.
std::vector<std::string> compressors() {
  std::vector<std::string> names;
  for (const compress::SelectorKind& kind : compress::selectors())
    if (kind.traits.by_name && kind.traits.by_k && !kind.traits.needs_latest) names.push_back(kind.name);
  return names;
}

/// Changes of an estimate of each worker's momentum (ef21.h).
class ErrorFeedback21 final : public Method {
 public:
  std::string name() const override { return "ef21"; }
  std::string summary() const override { return "largest changes of momentum (Fatkhullin et al. 2023)"; }
  Traits traits() const override { return {.on_ghosts = true, .keeps = "momentum and estimates"}; }

  void settings(Settings& s) override {
    s.group("Error feedback of momentum (`sync` ef21)", Scope::exchange);
    s.real_number("density", "D", rules_.density, 0, 1, "0.001", "share of a tensor's elements that is sent");
    s.choice("selector", rules_.selector, compressors(), "how they are chosen");
    s.real_number("ef21-eta", "ETA", rules_.eta, 0, 1, "0.1", "weight of the newest gradient in the momentum");
  }

  void check(const TrainingFacts& facts) const override {
    refuse_copies(facts);
    if (rules_.density == 0) refuse("nothing would ever be sent", "`density` 0", "give more, as 0.001");
    if (rules_.eta == 0) refuse("no gradient would ever count but the first", "`ef21-eta` 0", "give more, as 0.1");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "allreduce") return Refusal{"what `sync` ef21 sends goes from all to all", "leave it out"};
    return Method::refuses(setting);
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    if (plan.chunk_is_default()) plan.chunk_bytes = 0;
  }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    return std::make_unique<Ef21>(std::move(side), rules_);
  }

  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override {
    return Ef21::expected_bytes(plan, parameters, rules_, facts.workers);
  }

  LedgerForm ledger() const override { return LedgerAccount::form(); }

  std::string describe(const TrainingFacts&) const override {
    return fmt::format("ef21, {:g} % by {}, eta {:g}", 100 * rules_.density, rules_.selector, rules_.eta);
  }

 private:
  Ef21Rules rules_{};
};

}  // namespace

std::unique_ptr<Method> make_ef21() { return std::make_unique<ErrorFeedback21>(); }

}  // namespace laconic::dist
