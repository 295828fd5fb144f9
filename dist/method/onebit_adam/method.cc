#include <fmt/format.h>

#include <vector>

#include "core/base/clock.h"
#include "core/base/random.h"
#include "dist/method/onebit_adam/onebit_adam.h"
#include "dist/engine/virtual_time.h"

namespace laconic::dist {
namespace {

/// Signs of Adam's momentum (onebit_adam.h).
class SignsOfMomentum final : public Method {
 public:
  std::string name() const override { return "onebit-adam"; }
  std::string summary() const override { return "signs of Adam's momentum (Tang et al. 2021)"; }
  Traits traits() const override { return {.on_ghosts = true, .optimizer = "adam", .keeps = "errors"}; }

  void settings(Settings& s) override {
    s.group("1-bit Adam (`sync` onebit-adam)", Scope::exchange);
    s.whole_number<std::int64_t>("onebit-warmup", "STEPS", rules_.warmup, 1,
                                 "steps of dense Adam before its second moment is frozen and\nsigns travel; give a "
                                 "sixth of all, if you know them");
    s.whole_number<std::int64_t>("onebit-refresh", "K", rules_.refresh, 0,
                                 "after that dense steps renew it: K after 1 step each, K after\n2, after 4, ... (0/1 "
                                 "Adam); 0: none");
  }

  void check(const TrainingFacts& facts) const override {
    refuse_copies(facts);
    if (facts.optimizer != "adam" && facts.optimizer != "adamw")
      refuse(concat("`sync` onebit-adam sends the momentum of Adam, and this is ", facts.optimizer), "`optimizer`",
             "take `optimizer` adam or adamw");
    if (facts.clip_norm > 0 || facts.clip_value > 0)
      refuse("`sync` onebit-adam joins momentum, and nobody knows the joined gradient", "`clip`",
             "give `clip` none, or take `sync` allreduce");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "reduce") return Refusal{"what is sent is the mean of all workers' momentum", "leave it out"};
    return Method::refuses(setting);
  }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    return std::make_unique<OnebitAdam>(std::move(side), rules_);
  }

  /// Counts steps that are not dense.
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override {
    if (rules_.refresh > 0) return std::nullopt;  // the longer the training, the fewer
    const int N = facts.workers;
    double bytes = 0;
    for (const Bucket& bucket : plan.buckets) {
      compress::ScaledSigns all;
      for (int r = 0; r < N; ++r)
        for_averaged(bucket, parameters, r, N,
                     [&](std::size_t, std::size_t first, std::size_t count) { all.add(first, count); });
      bytes += (N - 1) * (2 * static_cast<double>(all.bytes()) / N + kPartHeader);
    }
    return bytes;
  }

  void measure(WorkCosts& work) const override {
    constexpr std::size_t kElements = 1 << 20;
    compress::ScaledSigns signs;
    signs.add(0, kElements);
    std::vector<float> x(kElements);
    Random random(0, Purpose::test);
    for (float& v : x) v = random.normal();
    std::vector<std::byte> message(signs.bytes());
    work.per_selected_element = least_seconds(3, [&] { signs.extract(x.data(), message.data()); }) / kElements;
    work.per_scattered_element = least_seconds(3, [&] { signs.add_to(message.data(), 0.5f, x.data()); }) / kElements;
    work.per_gathered_element = 12 * work.per_added_byte / 2;  // reads two arrays, writes one, as an addition
  }

  LedgerForm ledger() const override {
    return EnergyAccount::form(
        "of steps that are not dense. sent: signs a step; bytes: that rank 0 sent; held: share of the squares of "
        "momentum and error that rank 0\nkeeps as its next error");
  }

  std::string describe(const TrainingFacts&) const override {
    return fmt::format("onebit-adam, after {} steps{}", rules_.warmup,
                       rules_.refresh > 0 ? fmt::format(", refreshed by {}", rules_.refresh) : "");
  }

 private:
  OnebitRules rules_;
};

}  // namespace

std::unique_ptr<Method> make_onebit_adam() { return std::make_unique<SignsOfMomentum>(); }

}  // namespace laconic::dist
