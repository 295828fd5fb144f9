#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dist/method/allreduce_sync.h"
#include "dist/method/rounds/rounds.h"
#include "dist/method/warmup.h"

namespace laconic::dist {
namespace {

/// Local steps, and the mean of what they have changed (rounds_sync.cc).
class LocalRounds final : public Method {
 public:
  std::string name() const override { return "rounds"; }
  std::string summary() const override { return "own steps, then what they changed (local SGD, DiLoCo)"; }
  Traits traits() const override {
    return {.same_bits = false,
            .codec = !density_ && !pairs_,
            .alike = !pairs_,
            .on_ghosts = true,
            .every = rules_.every,
            .period = rules_.every,
            .keeps = "outer model"};
  }

  void settings(Settings& s) override {
    s.group("Rounds of own steps (`sync` rounds)", Scope::exchange);
    s.whole_number<std::int64_t>("every", "H", rules_.every, 1, "steps of each worker from exchange to exchange");
    s.choice("outer", outer_, {"sgd", "momentum", "nesterov"},
             "how the mean of what workers changed is applied\n[sgd: local SGD; nesterov: DiLoCo]");
    s.real_number("outer-lr", "LR", lr_, 0, 1e3, "0.7", "its rate [1; nesterov, and momentum of pairs: 0.7]",
                  [this] { return lr(); });
    s.real_number("outer-momentum", "M", momentum_, 0, 1, "0.9", "its momentum [0.9; pairs: 0.5; sgd: none]",
                  [this] { return momentum(); });
    s.flag("pairs", pairs_, "a worker meets one other, drawn anew each time (NoLoCo)");
    s.real_number("pull", "GAMMA", pull_, 0, 1e3, "0.7",
                  "of two workers' distance, to be made up for in a round\n[outer-lr]", [this] { return pull(); });
    s.whole_number<std::int64_t>("fragments", "P", rules_.fragments, 1,
                                 "parts of the model that end their rounds one after\nthe other");
    s.whole_number<std::int64_t>("delay", "TAU", rules_.delay, 0, "steps that go on while an exchange is under way");
    s.real_number("mix", "ALPHA", mix_, 0, 1, "0.5",
                  "share of its own values that a worker keeps when one\narrives [0; with delay: 0.5]",
                  [this] { return mix(); });
    s.value(
        "density", "D",
        "share of what was changed that is sent, the largest of\neach 4096 neighbours (SparseLoCo) [none: all]",
        [this](const std::string& text, const std::string& where) {
          density_.reset();
          if (text != "none") density_ = real(text, where, 0, 1, "0.03");
        },
        [this] { return density_ ? number_text(*density_) : "none"; });
    s.real_number("outer-feedback", "BETA", beta_, 0, 1, "0.95",
                  "what was not sent is added next time, times BETA [0.95]", [this] { return beta(); });
    s.value(
        "value-bits", "2|32", "of a value that is sent [2: its sign, and one of two\nmagnitudes of its neighbours]",
        [this](const std::string& text, const std::string& where) {
          bits_ = one_of(text, where, {"2", "32"});
        },
        [this] { return bits(); });
    s.value("warmup", "none|dense:E", "in the first E epochs dense gradients [none]",
            Settings::into(warmup_, Warmup::parse), [this] { return warmup_.to_string(); });
  }

  void check(const TrainingFacts& facts) const override {
    require_codec_fits(facts.plan);
    if (density_ || pairs_) refuse_copies(facts);
    if (rules_.delay >= rules_.every)
      refuse("the next exchange would begin before the last one has arrived", concat("`delay` ", rules_.delay),
             concat("give less than `every`, which is ", rules_.every));
    if (mix() == 1) refuse("what workers have learned would never be taken over", "`mix` 1", "give less, as 0.5");
    if (lr() == 0) refuse("what workers have learned would never be used", "`outer-lr` 0", "give more, as 0.7");
    if (momentum() == 1) refuse("no change would ever be forgotten", "`outer-momentum` 1", "give less, as 0.9");
    if (outer_ == "sgd" && momentum() > 0)
      refuse("`outer` sgd has none", "`outer-momentum`", "leave it out, or take `outer` momentum or nesterov");
    if (pull_ && !pairs_) refuse("all workers have one outer model", "`pull`", "leave it out, or add `pairs`");
    if (pairs_) check_pairs(facts);
    if (density_ == 0.0) refuse("nothing would ever be sent", "`density` 0", "give more, as 0.03");
    if (beta_ && !density_)
      refuse("all is sent, and nothing kept", "`outer-feedback`", "leave it out, or add `density`");
    if (bits_ && !density_) refuse("sums have `codec` instead", "`value-bits`", "leave it out, or add `density`");
    if (warmup_.kind == Warmup::Kind::ramp)
      refuse("rounds have no density that could fall", "`warmup` ramp", "take `warmup` dense:E");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "fusion" && rules_.fragments > 1)
      return Refusal{"`fragments` are made of layers, and each layer travels as one message",
                     "leave one of the two out"};
    const bool sums_never = warmup_.kind == Warmup::Kind::none;
    if (setting == "allreduce" && density_ && sums_never)
      return Refusal{"what is chosen (`density`) goes from each worker to all", "leave one of the two out"};
    if (setting == "allreduce" && pairs_ && sums_never)
      return Refusal{"workers meet in `pairs`, and nothing is added up over all", "leave one of the two out"};
    if ((setting == "codec" || setting == "codec-feedback") && pairs_)
      return Refusal{"what two workers send (`pairs`) has their weights in it, which must not be rounded",
                     "leave one of the two out"};
    if ((setting == "codec" || setting == "codec-feedback") && density_)
      return Refusal{"what is chosen (`density`) has `value-bits`", "leave one of the two out"};
    return Method::refuses(setting);
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    if (rules_.fragments > 1) plan.fusion = PlanOptions::Fusion::module;
  }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    RoundsRules rules = rules_;
    rules.lr = lr(), rules.momentum = momentum(), rules.nesterov = outer_ == "nesterov", rules.mix = mix();
    rules.chosen = wire(), rules.feedback = beta(), rules.pairs = pairs_, rules.pull = pull();
    if (warmup_.kind == Warmup::Kind::dense)
      rules.dense_steps =
          std::max<std::int64_t>(0, warmup_.epochs * side.facts.steps_per_epoch - side.facts.steps_ahead);
    return make_rounds_worker(std::move(side), rules);
  }

  /// Counts the steps after a warm-up.
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override {
    const double N = facts.workers;
    double elements = 0;
    for (const Bucket& b : plan.buckets) elements += static_cast<double>(b.elements);
    std::optional<double> bytes;
    if (pairs_)
      bytes = sizeof(float) * elements * (N - facts.workers % 2) / N;
    else if (density_)
      bytes = expected_exchange_bytes(plan, parameters, facts, TopK::form(facts),
                                      [this](PartPlace place) { return TopK{*wire()}.part(std::move(place)); });
    else
      bytes = bytes_of_step(plan, facts.workers);
    return bytes ? std::optional(*bytes / static_cast<double>(rules_.every)) : std::nullopt;
  }

  std::string describe(const TrainingFacts& facts) const override {
    std::string text = concat("rounds of ", rules_.every, rules_.every == 1 ? " step, " : " steps, ", outer_);
    if (rules_.fragments > 1) text += concat(", ", rules_.fragments, " fragments");
    if (rules_.delay > 0) text += concat(", ", rules_.delay, " late");
    if (pairs_) return text + ", in pairs";
    if (density_) return text + fmt::format(", the largest {:g} % in {} bits", 100 * *density_, bits());
    return text + ", " + (facts.plan_file.empty() ? facts.plan.allreduce : "by " + facts.plan_file);
  }

 private:
  void check_pairs(const TrainingFacts& facts) const {
    if (density_)
      refuse("what is chosen (`density`) goes from each worker to all", "`pairs`", "leave one of the two out");
    if (outer_ == "nesterov")
      refuse("the pull of `pairs` is known to hold workers together without looking ahead", "`outer` nesterov",
             "take `outer` momentum");
    if (!facts.mean) refuse("a pair takes its mean (`pairs`)", "`reduce` sum", "leave one of the two out");
    const double most = 2 * (1 - momentum() * momentum());  // docs/rounds.md
    if (facts.workers > 2 && pull() >= most)
      refuse("pairs would drive workers further apart in every round", concat("`pull` ", number_text(pull())),
             fmt::format("give less than {:.3g}, or a smaller `outer-momentum`", most));
  }
  double lr() const { return lr_.value_or(outer_ == "nesterov" || (pairs_ && outer_ == "momentum") ? 0.7 : 1); }
  double momentum() const { return momentum_.value_or(outer_ == "sgd" ? 0 : pairs_ ? 0.5 : 0.9); }
  double pull() const { return pull_.value_or(lr()); }
  std::string bits() const { return bits_.value_or("2"); }
  double beta() const { return beta_.value_or(0.95); }
  std::optional<compress::TopKWire> wire() const {
    return density_ ? std::optional(compress::TopKWire{.density = *density_, .two_bits = bits() == "2"}) : std::nullopt;
  }
  double mix() const { return mix_.value_or(rules_.delay > 0 ? 0.5 : 0); }

  RoundsRules rules_{};  // every, fragments, delay
  std::string outer_ = "sgd";
  std::optional<double> lr_, momentum_, mix_;  // nothing: by the other settings
  bool pairs_ = false;
  std::optional<double> pull_;     // nothing: lr
  std::optional<double> density_;  // nothing: all
  std::optional<double> beta_;
  std::optional<std::string> bits_;
  Warmup warmup_{};
};

}  // namespace

std::unique_ptr<Method> make_rounds() { return std::make_unique<LocalRounds>(); }

}  // namespace laconic::dist
