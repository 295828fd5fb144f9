#include <fmt/format.h>

#include <vector>

#include "core/base/clock.h"
#include "core/base/parse.h"
#include "core/base/random.h"
#include "dist/method/demo/demo.h"
#include "dist/engine/virtual_time.h"

namespace laconic::dist {
namespace {

/// The largest coefficients of momentum, which stays at home (demo.h).
class DecoupledMomentum final : public Method {
 public:
  std::string name() const override { return "demo"; }
  std::string summary() const override { return "strongest frequencies of momentum (Peng et al. 2024)"; }
  Traits traits() const override { return {.on_ghosts = true, .keeps = "momentum"}; }

  void settings(Settings& s) override {
    s.group("Decoupled momentum (`sync` demo)", Scope::exchange);
    s.whole_number<std::int64_t>("demo-topk", "K", rules_.most, 1, "coefficients of a chunk that are sent");
    s.whole_number<std::int64_t>("demo-chunk", "S", rules_.side, 1, "matrices are cut into chunks of at most S x S");
    s.value(
        "demo-decay", "BETA", "what a step leaves of the momentum [0.999]",
        [this](const std::string& text, const std::string& where) { rules_.decay = real(text, where, 0, 1, "0.999"); },
        [this] { return number_text(rules_.decay); });
    s.either("demo-update", sum_, "sign", "sum",
             "update by the sign of what comes, with a rate as\nsmall as Adam's, or by its mean or sum (`reduce`) "
             "[sign]");
  }

  void check(const TrainingFacts& facts) const override {
    refuse_copies(facts);
    constexpr std::int64_t kMostSide = 256;  // places have 16 bits
    if (rules_.side > kMostSide)
      refuse("a place in such a chunk has more than 16 bits", concat("`demo-chunk` ", rules_.side),
             concat("give at most ", kMostSide));
    if (rules_.decay == 1) refuse("no gradient would ever be forgotten", "`demo-decay` 1", "give less, as 0.999");
    if (!sum_ && (facts.clip_norm > 0 || facts.clip_value > 0))
      refuse("a sign is 1 or -1, whatever the gradient", "`clip`", "give `clip` none, or take `demo-update` sum");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "allreduce") return Refusal{"what `sync` demo sends goes from all to all", "leave it out"};
    if (setting == "reduce" && !sum_)
      return Refusal{"a sign is neither sum nor mean", "leave it out, or take `demo-update` sum"};
    return Method::refuses(setting);
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    if (plan.chunk_is_default()) plan.chunk_bytes = 0;
  }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    return std::make_unique<Demo>(std::move(side), rules());
  }

  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override {
    double bytes = 0;
    for (const Bucket& bucket : plan.buckets) {
      bytes += kPartHeader;
      for (int i = bucket.first; i < bucket.first + bucket.count; ++i)
        bytes += static_cast<double>(
            Chunks(held_by(bucket, parameters[static_cast<std::size_t>(i)]->info).shape, rules_.side, rules_.most)
                .message_bytes());
    }
    return (facts.workers - 1) * bytes;
  }

  void measure(WorkCosts& work) const override {
    constexpr std::int64_t kSide = 1024, kElements = kSide * kSide;
    const Chunks chunks({kSide, kSide}, rules_.side, rules_.most);
    std::vector<float> m(kElements), q(kElements);
    Random random(0, Purpose::test);
    for (float& v : m) v = random.normal();
    std::vector<std::byte> message(chunks.message_bytes());
    work.per_selected_element = least_seconds(3, [&] { chunks.extract(m.data(), message.data()); }) / kElements;
    work.per_scattered_element = least_seconds(3, [&] { chunks.combine({message.data()}, q.data()); }) / kElements;
    work.per_gathered_element = 12 * work.per_added_byte / 2;  // reads two arrays, writes one, as an addition
  }

  LedgerForm ledger() const override {
    return EnergyAccount::form(
        "sent: coefficients a step; bytes: of rank 0's messages, as often as they travel; held: share of the "
        "squares of momentum\nthat a step leaves at home");
  }

  std::string describe(const TrainingFacts&) const override {
    return fmt::format("demo, {} of {} x {}{}", rules_.most, rules_.side, rules_.side, sum_ ? "" : ", signs");
  }

 private:
  DemoRules rules() const {
    DemoRules rules = rules_;
    rules.sign = !sum_;
    return rules;
  }

  DemoRules rules_{};
  bool sum_ = false;
};

}  // namespace

std::unique_ptr<Method> make_demo() { return std::make_unique<DecoupledMomentum>(); }

}  // namespace laconic::dist
