#include "dist/method/slim/method.h"

#include <cmath>
#include <utility>

#include "compress/codecs.h"
#include "dist/method/slim/slim_server.h"

namespace laconic::dist {

Method::Traits Slim::traits() const {
  Traits traits = ServedMethod::traits();
  traits.workers_update = true, traits.same_bits = false;
  traits.arenas = 2, traits.arenas_are = "changes";
  return traits;
}

void Slim::settings(Settings& s) {
  begin_group(s);
  compress::SlimRules& chosen = rules.chosen;
  s.real_number("alpha", "A", chosen.alpha, 0, 1, "0.3", "share of the elements that slimdp sends");
  s.real_number("explore", "E", chosen.explore, 0, 1, "0.15", "of these the ones drawn at random, as a share of all");
  s.whole_number<std::int64_t>("core-every", "Q", chosen.core_every, 1, "exchanges until the others are chosen anew");
  s.whole_number<std::int64_t>("local-steps", "P", rules.local_steps, 1,
                               "steps of each worker from exchange to exchange");
  s.value(
      "slim-scope", "layer|model", "choose from each parameter, or from all together [layer]",
      [this](const std::string& text, const std::string& where) {
        rules.whole_model = one_of(text, where, {"layer", "model"}) == "model";
      },
      [this] { return rules.whole_model ? "model" : "layer"; });
  s.value(
      "explorer-keys", "drawn|sent", "both ends draw the same, or they travel [drawn]",
      [&chosen](const std::string& text, const std::string& where) {
        chosen.keys_sent = one_of(text, where, {"drawn", "sent"}) == "sent";
      },
      [&chosen] { return chosen.keys_sent ? "sent" : "drawn"; });
  s.flag("slim-residual", rules.residual, "what was not sent stays to be chosen from");
  add_truncation(s);
}

void Slim::check(const TrainingFacts& facts) const {
  if (facts.clip_norm > 0)
    refuse("`sync` slimdp updates layer by layer on each worker, before the length of its whole gradient is known",
           "`clip`", "give `clip` value:X, or take `sync` ps");
  compress::require_sensible(rules.chosen);
  ServedMethod::check(facts);
}

std::optional<Method::Refusal> Slim::refuses(const std::string& setting) const {
  const std::string no_use = "`sync` slimdp has no use for it";
  if (setting == "fusion")
    return Refusal{no_use, "leave it out: what is chosen from is one parameter, or all (`slim-scope`)"};
  if (setting == "chunk" && rules.whole_model)
    return Refusal{no_use, "leave it out: what is chosen from is all (`slim-scope`)"};
  return ServedMethod::refuses(setting);
}

void Slim::shape(PlanOptions& plan, const TrainingFacts&) const {
  constexpr std::size_t kAll = std::size_t{1} << 60;
  if (rules.whole_model) plan.chunk_bytes = 0;
  plan.fusion = PlanOptions::Fusion::lazy;
  plan.bucket_bytes = rules.whole_model ? kAll : 0;
}

LedgerForm Slim::ledger() const {
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

std::string Slim::describe(const TrainingFacts& facts) const {
  std::string text = ServedMethod::describe(facts);
  return text.insert(name().size(), concat(", alpha = ", rules.chosen.alpha, ", explorer ", rules.chosen.explore));
}

Legs Slim::legs(const std::string& codec, bool feedback, std::uint64_t seed) const {
  if (compress::traits_of(codec).remembers)
    refuse("`sync` slimdp sends a choice of parameters, of which one bit says too little", "`codec` " + codec,
           "take qsgd:8:512");
  if (feedback) refuse("`sync` slimdp gathers nothing that was not sent", "`codec-feedback`", "leave it out");
  return ServedMethod::legs(codec, false, seed);
}

std::unique_ptr<PsSync> Slim::make_worker(WorkerSide side, PsSync::Options options) const {
  return std::make_unique<SlimSync>(side.arena, side.engine, side.plan, std::move(side.update), std::move(options),
                                    rules);
}

std::unique_ptr<ParameterServer> Slim::make_server(ServerSide side, ParameterServer::Options options) const {
  return std::make_unique<SlimServer>(side.shard, std::move(options), rules.chosen, rules.local_steps);
}

std::optional<double> Slim::bytes_of_round(const Bucket& bucket, const Legs& legs) const {
  const compress::SlimRules& c = rules.chosen;
  const double keys = (c.alpha - c.explore) / static_cast<double>(c.core_every) + (c.keys_sent ? c.explore : 0);
  const auto n = static_cast<double>(bucket.elements);
  double bytes = 0;
  for (const auto& codec : {legs.up, legs.down})
    bytes += leg_bytes(codec.get(), static_cast<std::size_t>(std::llround(c.alpha * n))) + 4 * keys * n;
  return bytes / static_cast<double>(rules.local_steps);
}

}  // namespace laconic::dist
