#include "dist/method/ps/method.h"

#include "dist/method/layer_drop/layer_drop_sync.h"

namespace laconic::dist {
namespace {

/// Layers of small gradients stay at home (layer_drop_sync.h).
class LayerDrop final : public ServedMethod {
 public:
  std::string name() const override { return "layerdrop"; }
  std::string summary() const override { return "ps without layers of small gradients"; }
  Traits traits() const override {
    Traits traits = ServedMethod::traits();
    traits.keeps = "kept layers";
    traits.on_ghosts = true, traits.period = steps_of_turns();
    return traits;
  }

  void settings(Settings& s) override {
    ServedMethod::settings(s);
    s.value(
        "drop-ratio", "R",
        "share of the elements that layerdrop keeps at home [" + number_text(rules_.drop_ratio) + "]",
        [this](const std::string& text, const std::string& where) {
          rules_.drop_ratio = real(text, where, 0, 1, "0.9");
          if (rules_.drop_ratio >= 1) refuse("then nothing would ever be sent", where, "give less than 1, as 0.97");
        },
        [this] { return number_text(rules_.drop_ratio); });
    s.whole_number<std::int64_t>(
        "threshold-every", "K", rules_.threshold_every, 0,
        "steps until layerdrop finds a new threshold, or until the\nrate has changed by a tenth; 0: only then");
    s.value(
        "layerdrop-norm", "mean|l1|l2", "what layerdrop compares: mean magnitude, sum, length [mean]",
        [this](const std::string& text, const std::string& where) {
          rules_.norm = compress::layer_norm_named(text, where);
        },
        [this] { return compress::to_string(rules_.norm); });
    s.whole_number<std::int64_t>("layerdrop-max-age", "A", rules_.max_age, 0,
                                 "a layer is sent at least every A steps; 0: no limit");
    s.choice(
        "layerdrop-unit", unit_, {"module", "parameter", "rows"},
        "what a layer is: weight and bias of one module; each by\nitself; or large matrices in rows too, of `chunk`");
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    if (setting == "layer-shares") return std::nullopt;
    if (setting == "fusion" || (setting == "chunk" && unit_ != "rows"))
      return Refusal{"`sync` layerdrop has no use for it", "leave it out: a layer travels as a whole, or not at all"};
    return ServedMethod::refuses(setting);
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    if (unit_ != "rows")
      plan.chunk_bytes = 0;
    else if (plan.chunk_is_default())
      plan.chunk_bytes = 256 << 10;
    plan.fusion = unit_ == "module" ? PlanOptions::Fusion::module : PlanOptions::Fusion::lazy;
    if (unit_ != "module") plan.bucket_bytes = 0;
  }

  LedgerForm ledger() const override {
    using Unit = LedgerColumn::Unit;
    static constexpr LedgerColumn columns[] = {
        {"exchanges", "steps", Unit::count, [](const LedgerRow& r) { return static_cast<double>(r.exchanges); }},
        {"times_sent", "sent", Unit::count, [](const LedgerRow& r) { return r.more.at(0); }},
        {"times_received", "came", Unit::count, [](const LedgerRow& r) { return r.more.at(1); }},
        {"sent", nullptr, Unit::number, [](const LedgerRow& r) { return r.sent; }},
        {"bytes", "up", Unit::bytes, [](const LedgerRow& r) { return r.bytes; }},
        {"bytes_down", "down", Unit::bytes, [](const LedgerRow& r) { return r.bytes_down; }},
        {"oldest", "age", Unit::count, [](const LedgerRow& r) { return static_cast<double>(r.oldest); }}};
    return {columns, "sent, came: steps in which rank 0 sent the layer, and got it back; age: steps since it was sent"};
  }

  std::string describe(const TrainingFacts& facts) const override {
    std::string text = ServedMethod::describe(facts);
    return text.insert(name().size(), ", R = " + number_text(rules_.drop_ratio));
  }

  std::unique_ptr<PsSync> make_worker(WorkerSide side, PsSync::Options options) const override {
    LayerDropSync::Rules rules = rules_;
    rules.keeps_losses = std::exchange(options.legs.keeps_losses, false);
    return std::make_unique<LayerDropSync>(std::move(side), std::move(options), rules);
  }
  std::unique_ptr<ParameterServer> make_server(ServerSide side, ParameterServer::Options options) const override {
    return make_layer_drop_server(std::move(side), std::move(options));
  }

 protected:
  std::optional<double> bytes_of_round(const Bucket&, const Legs&) const override { return std::nullopt; }

 private:
  /// A ghost's layer has its turns in so many steps as often as its share says.
  std::int64_t steps_of_turns() const {
    constexpr std::int64_t kMost = 1000;
    const double share = 1 - rules_.drop_ratio;
    const auto off = [&](std::int64_t steps) {
      const double turns = share * static_cast<double>(steps);
      return std::abs(turns - std::max(1.0, std::round(turns))) / turns;
    };
    std::int64_t steps = 1;
    while (steps < kMost && off(steps) > 1e-6) ++steps;
    return steps;
  }

  LayerDropSync::Rules rules_{};
  std::string unit_ = "module";
};

}  // namespace

std::unique_ptr<Method> make_layer_drop() { return std::make_unique<LayerDrop>(); }

}  // namespace laconic::dist
