#include <fmt/format.h>

#include "compress/codecs/dct_chunks.h"
#include "dist/method/exchange.h"

namespace laconic::dist {
namespace {

/// What can be set of it.
struct DemoRules {
  std::int64_t side = 64;  // s: a chunk has at most s by s elements
  std::int64_t most = 32;  // k: coefficients of a chunk that travel
  double decay = 0.999;    // beta
  bool sum = false;        // the update goes by the sum over workers of what has come, else by its sign
};

/// Decoupled momentum. Each worker has a momentum m of its own. The largest coefficients of each chunk's cosine
/// transform travel, and leave the momentum; all others stay, and go on to grow.
///
///     m = beta m + g
///     q = the k coefficients of each chunk of m that are largest,   m -= inverse DCT of q
///     Q = inverse DCT of the sum of all workers' q                  allgatherv
///     g = sign(Q), or Q, and the ordinary update                    sign(0) = 0; NaN stays
///
///   cost    (N-1) 6 k bytes sent by each of N ranks for a chunk
///   source  DeMo (Peng, Quesnelle, Kingma 2024), Algorithm 1; settled: momentum gathers gradients without the learning
///           rate, and parts are nearly equal, where its code looks for divisors
class DemoPart final : public Part {
 public:
  DemoPart(PartPlace place, const DemoRules& rules)
      : Part(std::move(place)), rules_(rules), chunks_(this->place().shape, rules.side, rules.most) {}

  std::size_t bytes(int) const override { return chunks_.message_bytes(); }

  Tensor gather(Slice<const float> g, const StepContext&) override {
    const Slice<float> m = state(0);
    const auto beta = static_cast<float>(rules_.decay);
    for (std::size_t i = 0; i < g.size(); ++i) m[i] = beta * m[i] + g[i];
    return state_tensor(0);
  }

  void make(compress::Bytes& out, int) override {
    chunks_.extract(state(0).data(), out.append(chunks_.message_bytes()).data());
  }

  void take(const Theirs& all, Slice<float> q) override {
    std::vector<const std::byte*> messages;
    all.each([&](Slice<const std::byte> message, int) {
      chunks_.check(message);
      messages.push_back(message.data());
    });
    chunks_.combine(messages, q.data());
    if (!rules_.sum)
      for (float& v : q) v = v > 0 ? 1.0f : v < 0 ? -1.0f : v;
  }

  Sent sent(std::size_t i) const override { return {static_cast<double>(chunks_.kept()), Part::sent(i).bytes}; }

 private:
  const DemoRules rules_;
  const compress::DctChunks chunks_;
};

class Demo final : public ExchangeMethod {
 public:
  std::string name() const override { return "demo"; }
  std::string summary() const override { return "strongest frequencies of momentum (Peng et al. 2024)"; }
  Traits traits() const override { return {.on_ghosts = true, .keeps = "momentum"}; }
  ExchangeForm form(const TrainingFacts& facts) const override {
    return {.state = {{"momentum", rules_.sum ? facts.put_by() : Join::mean, "the momentum of demo"}},
            .operation = "coefficients of",
            .span = "extract",
            .choice = "chunks",
            .result = rules_.sum ? ExchangeForm::Result::sum : ExchangeForm::Result::final};
  }
  std::unique_ptr<Part> part(PartPlace place) const override {
    return std::make_unique<DemoPart>(std::move(place), rules_);
  }

  void settings(Settings& s) override {
    s.group("Decoupled momentum (`sync` demo)", Scope::exchange);
    s.whole_number<std::int64_t>("demo-topk", "K", rules_.most, 1, "coefficients of a chunk that are sent");
    s.whole_number<std::int64_t>("demo-chunk", "S", rules_.side, 1, "matrices are cut into chunks of at most S x S");
    s.real_number("demo-decay", "BETA", rules_.decay, 0, 1, "0.999", "what a step leaves of the momentum");
    s.either("demo-update", rules_.sum, "sign", "sum",
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
    if (!rules_.sum && (facts.clip_norm > 0 || facts.clip_value > 0))
      refuse("a sign is 1 or -1, whatever the gradient", "`clip`", "give `clip` none, or take `demo-update` sum");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "reduce" && !rules_.sum)
      return Refusal{"a sign is neither sum nor mean", "leave it out, or take `demo-update` sum"};
    return ExchangeMethod::refuses(setting);
  }

  LedgerForm ledger() const override {
    return LedgerAccount::of_squares(
        "sent: coefficients a step; bytes: of rank 0's messages, as often as they travel; held: share of the "
        "squares of momentum\nthat a step leaves at home");
  }

  std::string describe(const TrainingFacts&) const override {
    return fmt::format("demo, {} of {} x {}{}", rules_.most, rules_.side, rules_.side, rules_.sum ? "" : ", signs");
  }

 private:
  DemoRules rules_{};
};

}  // namespace

std::unique_ptr<Method> make_demo() { return std::make_unique<Demo>(); }

}  // namespace laconic::dist
