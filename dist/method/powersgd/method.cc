#include <fmt/format.h>

#include "dist/method/powersgd/powersgd.h"

namespace laconic::dist {
namespace {

/// Matrices as products of two thin ones (powersgd.h).
class LowRankExchange final : public Method {
 public:
  std::string name() const override { return "powersgd"; }
  std::string summary() const override { return "matrices of low rank (Vogels et al. 2019)"; }
  Traits traits() const override { return {.chooses = true, .on_ghosts = true, .keeps = "errors"}; }

  void settings(Settings& s) override {
    s.group("Low rank (`sync` powersgd)", Scope::exchange);
    s.whole_number<int>("rank", "R", rank_, 1,
                        "columns of the two matrices that stand for one; what would\nnot save half travels whole");
    s.value(
        "warmup", "none|dense:E", "in the first E epochs dense gradients [none]",
        [this](const std::string& text, const std::string& where) {
          warmup_ = Warmup::parse(text, where);
          if (warmup_.kind == Warmup::Kind::ramp)
            refuse("powersgd has no density to begin with", where, "give dense:E, as dense:1");
        },
        [this] { return warmup_.to_string(); });
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    plan.sparse = {.kind = Dispatch::Kind::low_rank, .rank = rank_};
  }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    for (const Bucket& bucket : side.plan.buckets)
      require<UsageError>(bucket.choice.selector.empty(), "the plan chooses from ", bucket.name, " by '",
                          to_string(bucket.choice), "', which is not for `sync` powersgd (`plan`): make the plan for "
                          "this strategy");
    return std::make_unique<PowerSgd>(std::move(side), warmup_);
  }

  /// Counts what follows a warm-up.
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override {
    const int N = facts.workers;
    if (N == 1) return 0;
    double bytes = 0;
    for (const Bucket& b : plan.buckets) {
      if (b.sparse() && b.rows.first > 0) continue;  // a chunk of what was counted
      const auto [n, m] = matrix_size(parameters[static_cast<std::size_t>(b.first)]->info.shape);
      for (const std::int64_t count : b.sparse() ? std::vector{b.choice.rank * n, b.choice.rank * m}
                                                 : std::vector{b.elements}) {
        const std::optional<Cost> cost = allreduce_cost(b.allreduce, N, 4 * static_cast<double>(count), b.pieces);
        if (!cost) return std::nullopt;
        bytes += cost->all_bytes / N;
      }
    }
    return bytes;
  }

  LedgerForm ledger() const override {
    return EnergyAccount::form(
        "sent: numbers a step, of both matrices; bytes: that rank 0 sent, as in a ring; held: share of the squares "
        "of gradient and\nerror that rank 0 keeps as its next error");
  }

  std::string describe(const TrainingFacts&) const override { return fmt::format("powersgd, rank {}", rank_); }

 private:
  int rank_ = 2;
  Warmup warmup_{};
};

}  // namespace

std::unique_ptr<Method> make_power_sgd() { return std::make_unique<LowRankExchange>(); }

}  // namespace laconic::dist
