#include "dist/method/signsgd/sign_sgd.h"

namespace laconic::dist {
namespace {

/// Votes of signs (sign_sgd.h).
class SignVote final : public Method {
 public:
  std::string name() const override { return "signsgd"; }
  std::string summary() const override { return "votes of signs (Bernstein et al. 2018)"; }

  Traits traits() const override { return {.on_ghosts = true}; }

  void settings(Settings& s) override {
    s.group("Signs (`sync` signsgd)", Scope::exchange);
    s.either("sign-scale", bare_, "mean", "none",
             "a vote counts as the mean magnitude of the parameter's\ngradients, or as 1, with a smaller rate [mean]");
  }

  void check(const TrainingFacts& facts) const override {
    refuse_copies(facts);
    if (bare_ && (facts.clip_norm > 0 || facts.clip_value > 0))
      refuse("a vote of signs is 1 or -1, whatever the gradient", "`clip`", "give `clip` none");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "allreduce")
      return Refusal{"every worker of `sync` signsgd counts a part of the votes", "leave it out"};
    if (setting == "reduce") return Refusal{"a vote of signs is neither sum nor mean", "leave it out"};
    return Method::refuses(setting);
  }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    return std::make_unique<SignSgd>(std::move(side), !bare_);
  }

  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>&,
                                       const TrainingFacts& facts) const override {
    const double N = facts.workers;
    double bytes = 0;
    for (const Bucket& b : plan.buckets)
      bytes += (N - 1) * (2 * static_cast<double>(b.elements) / 8 / N + kPartHeader + (bare_ ? 0 : 4 * b.count));
    return bytes;
  }

 private:
  bool bare_ = false;
};

}  // namespace

std::unique_ptr<Method> make_sign_sgd() { return std::make_unique<SignVote>(); }

}  // namespace laconic::dist
