#include "dist/method/layer_drop/method.h"

#include <utility>

#include "dist/method/layer_drop/layer_drop_server.h"

namespace laconic::dist {

Method::Traits LayerDrop::traits() const {
  Traits traits = ServedMethod::traits();
  traits.arenas = 1, traits.arenas_are = "kept layers";
  return traits;
}

void LayerDrop::settings(Settings& s) {
  ServedMethod::settings(s);
  s.value(
      "drop-ratio", "R", "share of the elements that layerdrop keeps at home [" + number_text(rules.drop_ratio) + "]",
      [this](const std::string& text, const std::string& where) {
        rules.drop_ratio = real(text, where, 0, 1, "0.9");
        if (rules.drop_ratio >= 1) refuse("then nothing would ever be sent", where, "give less than 1, as 0.97");
      },
      [this] { return number_text(rules.drop_ratio); });
  s.whole_number<std::int64_t>("threshold-every", "K", rules.threshold_every, 0,
                               "steps until layerdrop finds a new threshold; 0: once");
  s.value(
      "layerdrop-norm", "mean|l1|l2", "what layerdrop compares: mean magnitude, sum, length [mean]",
      [this](const std::string& text, const std::string& where) {
        rules.norm = compress::layer_norm_named(text, where);
      },
      [this] { return compress::to_string(rules.norm); });
  s.whole_number<std::int64_t>("layerdrop-max-age", "A", rules.max_age, 0,
                               "a layer is sent at least every A steps; 0: no limit");
  s.value(
      "layerdrop-unit", "module|parameter",
      "what a layer is: weight and bias of one module, or each\nby itself [module]",
      [this](const std::string& text, const std::string& where) {
        finest = one_of(text, where, {"module", "parameter"}) == "parameter";
      },
      [this] { return finest ? "parameter" : "module"; });
}

void LayerDrop::check(const TrainingFacts& facts) const {
  compress::drop_threshold({}, rules.drop_ratio);  // checks it
  ServedMethod::check(facts);
}

std::optional<Method::Refusal> LayerDrop::refuses(const std::string& setting) const {
  if (setting == "fusion" || setting == "chunk")
    return Refusal{"`sync` layerdrop has no use for it", "leave it out: a layer travels as a whole, or not at all"};
  return ServedMethod::refuses(setting);
}

void LayerDrop::shape(PlanOptions& plan, const TrainingFacts&) const {
  plan.chunk_bytes = 0;
  plan.fusion = finest ? PlanOptions::Fusion::lazy : PlanOptions::Fusion::module;
  if (finest) plan.bucket_bytes = 0;
}

LedgerForm LayerDrop::ledger() const {
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

std::string LayerDrop::describe(const TrainingFacts& facts) const {
  std::string text = ServedMethod::describe(facts);
  return text.insert(name().size(), ", R = " + number_text(rules.drop_ratio));
}

std::unique_ptr<PsSync> LayerDrop::make_worker(WorkerSide side, PsSync::Options options) const {
  LayerDropSync::Rules r = rules;
  r.keeps_losses = std::exchange(options.legs.keeps_losses, false);
  return std::make_unique<LayerDropSync>(side.arena, side.engine, side.plan, std::move(options), r);
}

std::unique_ptr<ParameterServer> LayerDrop::make_server(ServerSide side, ParameterServer::Options options) const {
  return std::make_unique<LayerDropServer>(side.shard, std::move(side.update), std::move(options));
}

}  // namespace laconic::dist
