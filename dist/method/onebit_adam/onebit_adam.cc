#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compress/codecs/signs.h"
#include "dist/method/allreduce_sync.h"
#include "dist/method/exchange.h"
#include "dist/method/onebit_adam/onebit_rules.h"

namespace laconic::dist {
namespace {

/// What one bucket of 1-bit Adam does: below.
class MomentumPart final : public Part {
 public:
  explicit MomentumPart(PartPlace place) : Part(std::move(place)) {
    for (int r = 0; r < this->place().workers; ++r) {
      compress::ScaledSigns& share = shares_.emplace_back();
      for_averaged(r, [&](std::size_t first, std::size_t n) { share.add(first, n); });
    }
  }

  std::size_t bytes(int to) const override { return shares_[static_cast<std::size_t>(to)].bytes(); }

  void make(compress::Bytes& out, int to) override { extract(to, state(kErrors), out); }

  void join(const Theirs& all, compress::Bytes& out) override {
    const Slice<float> e = state(kServerErrors);
    all.each([&](Slice<const std::byte> message, int) {
      shares_[own()].add_to(message.data(), 1.0f / static_cast<float>(all.size()), e.data());
    });
    extract(place().rank, e, out);
  }

  void take(const Theirs& averages, Slice<float> momentum) override {
    averages.each([&](Slice<const std::byte> message, int r) {
      shares_[static_cast<std::size_t>(r)].read(message.data(), momentum.data());
    });
  }

  Sent sent(std::size_t i) const override {
    const Held& held = place().parameters[i];
    double bytes = 0;
    for (int r = 0; r < place().workers; ++r)
      for_averaged(r, [&](std::size_t first, std::size_t n) {
        if (first < static_cast<std::size_t>(held.offset) ||
            first >= static_cast<std::size_t>(held.offset + held.elements))
          return;
        const int times = r == place().rank ? place().workers - 1 : 1;  // its own goes to all others, as an average
        bytes += times * static_cast<double>(sizeof(float) + compress::bytes_of_signs(n));
      });
    return {static_cast<double>(held.elements), bytes};
  }

  /// Other numbers of workers average other elements: what this rank holds of an average's error where it averages
  /// nothing goes with its own error, N times, since that is one of N.
  void end_dense() {
    const Slice<float> e = state(kErrors), server = state(kServerErrors);
    for (int r = 0; r < place().workers; ++r)
      for_averaged(r, [&](std::size_t first, std::size_t n) {
        for (std::size_t k = first; r != place().rank && k < first + n; ++k)
          if (server[k] != 0) e[k] += static_cast<float>(place().workers) * std::exchange(server[k], 0.0f);
      });
  }

 private:
  enum : std::size_t { kErrors, kServerErrors };
  std::size_t own() const { return static_cast<std::size_t>(place().rank); }
  void extract(int r, Slice<float> x, compress::Bytes& out) const {
    shares_[static_cast<std::size_t>(r)].extract(x.data(), out.append(bytes(r)).data());
  }
  /// f(first, count) for each parameter of which rank r averages some elements.
  template <class F>
  void for_averaged(int r, F f) const {
    const std::int64_t n = place().elements, begin = n * r / place().workers, end = n * (r + 1) / place().workers;
    for (const Held& held : place().parameters) {
      const std::int64_t first = std::max(begin, held.offset), last = std::min(end, held.offset + held.elements);
      if (first < last) f(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
    }
  }

  std::vector<compress::ScaledSigns> shares_;  // by rank that averages them
};

/// 1-bit Adam. It begins as Adam with dense gradients. Then the second moment v is frozen, and the first, m, travels:
/// its signs, and a magnitude for each parameter. Every worker averages one N-th of a bucket, and tells all others.
///
///     warm-up            Adam; AllreduceSync joins the gradients. So in the steps in which v is refreshed
///     worker i           x = beta1 m + (1 - beta1) g_i + e_i
///                        C(x), in one N-th to each worker            e_i = x - C(x)        alltoallv
///     for its N-th       a = (mean over i of what came) + e
///                        C(a), to all                                e = a - C(a)          allgatherv
///     all                m = C(a),  w -= lr m / (sqrt(v) + eps)
///
/// C (ScaledSigns) goes by the part of a parameter that lies in the N-th. m is the same on all workers. What both
/// compressions leave out stays in e_i and e, and goes with what comes next. Where v is 0 an element rests; all
/// other v are at least 1e-4 of the largest of their parameter (Optimizer::freeze_second_moment).
/// Bias corrections are Adam's, that of v by the gradients that v has seen; weight decay is the optimiser's: adam has
/// it in g_i, adamw apart.
///   cost     2 (N-1)/N n/8 bytes sent by each of N ranks for n elements, and 8 bytes a parameter
///   source   1-bit Adam (Tang et al. 2021), Algorithm 1; 0/1 Adam (Lu et al. 2022); settled in
///            docs/papers/onebit-adam.md
///   throws   UsageError if side.moments are null
class OnebitAdam final : public Exchange {
 public:
  OnebitAdam(WorkerSide worker, ExchangeForm form, const MakePart& make, const OnebitRules& rules)
      : Exchange(std::move(worker), std::move(form), make),
        rules_(rules),
        dense_(arena(), engine(), plan(), side().update, side().facts) {
    require<UsageError>(side().moments.take || on_ghosts(), "what `sync` onebit-adam sends is Adam's momentum, and ",
                        side().facts.optimizer, " has none (`optimizer`): take adam or adamw");
  }
  ~OnebitAdam() override { halt_what_is_under_way(); }

  void begin_step(const StepContext& context) override {
    const std::int64_t update = context.update();
    const bool dense = rules_.dense(update);
    if (dense != dense_now_) flush();
    if (dense_now_ && !dense && !on_ghosts()) {  // also of a training that is resumed after it
      side().moments.freeze();
      for (Part* const part : parts()) static_cast<MomentumPart*>(part)->end_dense();
    }
    if (dense && update > rules_.warmup && !on_ghosts()) side().moments.thaw(update - 1 - rules_.seen(update - 1));
    dense_now_ = dense;
    dense_.begin_step(context);
    Exchange::begin_step(context);
  }
  void gradient_ready(Parameter& p, Rows rows) override {
    dense_now_ ? dense_.gradient_ready(p, rows) : Exchange::gradient_ready(p, rows);
  }
  void before_forward(Parameter& p, Rows rows) override {
    dense_now_ ? dense_.before_forward(p, rows) : Exchange::before_forward(p, rows);
  }
  void end_step() override { dense_now_ ? dense_.end_step() : Exchange::end_step(); }
  void flush() override { dense_now_ ? dense_.flush() : Exchange::flush(); }
  Costs costs() const override { return Exchange::costs() + dense_.costs(); }
  double message_bytes() const override { return std::max(Exchange::message_bytes(), dense_.message_bytes()); }

 private:
  void before_gather(Parameter& p, Rows rows) override { side().moments.form(p, rows); }
  void update(Parameter& p, Rows rows, const StepContext& context) override {
    if (on_ghosts()) return Exchange::update(p, rows, context);
    side().moments.take(p, rows, context, rules_.seen(context.update()));
  }

  const OnebitRules rules_;
  AllreduceSync dense_;
  bool dense_now_ = true;  // this step; before the first: nothing is under way
};

class OnebitAdamMethod final : public ExchangeMethod {
 public:
  std::string name() const override { return "onebit-adam"; }
  std::string summary() const override { return "signs of Adam's momentum (Tang et al. 2021)"; }
  Traits traits() const override { return {.on_ghosts = true, .optimizer = "adam", .keeps = "errors"}; }
  ExchangeForm form(const TrainingFacts&) const override {
    return {.state = {{"errors", Join::mean, "what onebit-adam has lost"},  // the mean counts, as of gradients
                      {"server_errors", Join::sum, "what averages of onebit-adam have lost"}},
            .operation = "momentum of",
            .span = "signs",
            .choice = "signs",
            .whole = true,
            .joined = "averaged",
            .joins_by_choice = true};
  }
  std::unique_ptr<Part> part(PartPlace place) const override {
    return std::make_unique<MomentumPart>(std::move(place));
  }
  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    ExchangeForm all = named_form(side.facts);
    return std::make_unique<OnebitAdam>(
        std::move(side), std::move(all), [this](PartPlace place) { return part(std::move(place)); }, rules_);
  }

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

  /// Counts steps that are not dense.
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override {
    if (rules_.refresh > 0) return std::nullopt;  // the longer the training, the fewer
    return ExchangeMethod::expected_bytes(plan, parameters, facts);
  }

  LedgerForm ledger() const override {
    return LedgerAccount::of_squares(
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

std::unique_ptr<Method> make_onebit_adam() { return std::make_unique<OnebitAdamMethod>(); }

}  // namespace laconic::dist
