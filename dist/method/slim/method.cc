#include "dist/method/ps/method.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "compress/codecs.h"
#include "dist/method/slim/slim_sync.h"

namespace laconic::dist {
namespace {

/// A choice of what workers have learned up, a choice of the parameters down (slim_sync.h).
class Slim final : public ServedMethod {
 public:
  std::string name() const override { return "slimdp"; }
  std::string summary() const override { return "ps with a part of the parameters (Slim-DP)"; }
  Traits traits() const override {
    Traits traits = ServedMethod::traits();
    traits.workers_update = true, traits.same_bits = false;
    traits.keeps = "changes";
    traits.on_ghosts = true, traits.chooses_by = "exact";
    constexpr std::int64_t kMost = 1000;
    traits.every = rules_.local_steps;
    traits.period = std::min(kMost, std::min(rules_.local_steps, kMost) * std::min(rules_.chosen.core_every, kMost));
    return traits;
  }

  void settings(Settings& s) override {
    begin_group(s);
    compress::SlimRules& chosen = rules_.chosen;
    s.real_number("alpha", "A", chosen.alpha, 0, 1, "0.3", "share of the elements that slimdp sends");
    s.real_number("explore", "E", chosen.explore, 0, 1, "0.15", "of these the ones drawn at random, as a share of all");
    s.whole_number<std::int64_t>("core-every", "Q", chosen.core_every, 1, "exchanges until the others are chosen anew");
    s.whole_number<std::int64_t>("local-steps", "P", rules_.local_steps, 1,
                                 "steps of each worker from exchange to exchange");
    s.either("slim-scope", rules_.whole_model, "layer", "model",
             "choose from each parameter (large ones in chunks),\nor from all together [layer]");
    s.either("explorer-keys", chosen.keys_sent, "drawn", "sent", "both ends draw the same, or they travel [drawn]");
    s.flag("slim-residual", rules_.residual, "what was not sent stays to be chosen from");
    add_truncation(s);
  }

  void check(const TrainingFacts& facts) const override {
    if (facts.clip_norm > 0)
      refuse("`sync` slimdp updates layer by layer on each worker, before the length of its whole gradient is known",
             "`clip`", "give `clip` value:X, or take `sync` ps");
    compress::require_sensible(rules_.chosen);
    ServedMethod::check(facts);
  }

  std::optional<Refusal> refuses(const std::string& setting) const override {
    const std::string no_use = "`sync` slimdp has no use for it";
    if (setting == "fusion")
      return Refusal{no_use, "leave it out: what is chosen from is one parameter, or all (`slim-scope`)"};
    if (setting == "chunk" && rules_.whole_model)
      return Refusal{no_use, "leave it out: what is chosen from is all (`slim-scope`)"};
    return ServedMethod::refuses(setting);
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    constexpr std::size_t kAll = std::size_t{1} << 60;
    if (rules_.whole_model)
      plan.chunk_bytes = 0;
    else if (plan.chunk_is_default())
      plan.chunk_bytes = 1 << 20;
    plan.chunk_convolutions = true;
    plan.fusion = PlanOptions::Fusion::lazy;
    plan.bucket_bytes = rules_.whole_model ? kAll : 0;
  }

  LedgerForm ledger() const override {
    using Unit = LedgerColumn::Unit;
    static constexpr LedgerColumn columns[] = {
        {"exchanges", "exchanges", Unit::count, [](const LedgerRow& r) { return static_cast<double>(r.exchanges); }},
        {"sent", "sent", Unit::number, [](const LedgerRow& r) { return r.sent; }},
        {"bytes", "up", Unit::bytes, [](const LedgerRow& r) { return r.bytes; }},
        {"bytes_down", "down", Unit::bytes, [](const LedgerRow& r) { return r.bytes_down; }},
        {"bytes_core", "core", Unit::bytes, [](const LedgerRow& r) { return r.more.at(0); }},
        {"bytes_explorer", "explorer", Unit::bytes, [](const LedgerRow& r) { return r.more.at(1); }},
        {"bytes_keys", "keys", Unit::bytes, [](const LedgerRow& r) { return r.more.at(2); }}};
    return {
        columns,
        "sent: elements each way; up, down: bytes between rank 0 and servers; core, explorer, keys: of both together"};
  }

  std::string describe(const TrainingFacts& facts) const override {
    std::string text = ServedMethod::describe(facts);
    return text.insert(name().size(), concat(", alpha = ", rules_.chosen.alpha, ", explorer ", rules_.chosen.explore));
  }

  /// The chosen values pass through the codec, without feedback.
  Legs legs(const std::string& codec, bool feedback, std::uint64_t seed) const override {
    if (compress::traits_of(codec).remembers)
      refuse("`sync` slimdp sends a choice of parameters, of which one bit says too little", "`codec` " + codec,
             "take qsgd:8:512");
    if (feedback) refuse("`sync` slimdp gathers nothing that was not sent", "`codec-feedback`", "leave it out");
    return ServedMethod::legs(codec, false, seed);
  }

  std::unique_ptr<PsSync> make_worker(WorkerSide side, PsSync::Options options) const override {
    return std::make_unique<SlimSync>(std::move(side), std::move(options), rules_);
  }
  std::unique_ptr<ParameterServer> make_server(ServerSide side, ParameterServer::Options options) const override {
    return make_slim_server(side.shard, std::move(options), rules_);
  }

 protected:
  std::optional<double> bytes_of_round(const Bucket& bucket, const Legs& legs) const override {
    const compress::SlimRules& c = rules_.chosen;
    const double keys = (c.alpha - c.explore) / static_cast<double>(c.core_every) + (c.keys_sent ? c.explore : 0);
    const auto n = static_cast<double>(bucket.elements);
    const std::int64_t chosen = std::llround(c.alpha * n);
    double bytes = legs.is_large(chosen) ? 2 * sizeof(Turn) : 0;
    for (const auto& codec : {legs.up, legs.down})
      bytes += leg_bytes(codec.get(), static_cast<std::size_t>(chosen)) + 4 * keys * n;
    return bytes / static_cast<double>(rules_.local_steps);
  }

 private:
  SlimSync::Rules rules_{};
};

}  // namespace

std::unique_ptr<Method> make_slim() { return std::make_unique<Slim>(); }

}  // namespace laconic::dist
