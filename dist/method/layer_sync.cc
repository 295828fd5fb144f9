#include "dist/method/layer_sync.h"

#include <utility>

#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {

LayerSync::LayerSync(WorkerSide side, std::string name, const std::string& kept, const std::string& what)
    : AllreduceSync(side.arena, side.engine, side.plan, side.update, side.facts),
      side_(std::move(side)),
      name_(std::move(name)),
      kept_(side_.arena.make_state()) {
  table_.tensor(name_ + "/" + kept, kept_, side_.facts.put_by(), what);
  if (side_.facts.ledger_every > 0)
    table_.numbers(name_ + "/dense_bytes", {&dense_bytes_}, Join::own, "the ledger of " + name_, false);
}

void LayerSync::make_layers(const std::function<std::unique_ptr<LayerExchange>(Parameter&, const Bucket&)>& make) {
  for (const auto& p : side_.arena.parameters()) {
    const auto first = static_cast<std::size_t>(plan().bucket_of[static_cast<std::size_t>(p->info.index)]);
    const Bucket& bucket = plan().buckets[first];
    layers_.push_back(bucket.sparse() ? make(*p, bucket) : nullptr);
    if (layers_.back() == nullptr) continue;
    layers_.back()->slot = side_.engine.reserve_slots(1);
    layers_.back()->by_nccl = by_nccl(bucket);
    const std::string prefix = name_ + "/" + p->info.name + "/";
    layers_.back()->keep_in(table_, prefix), layers_.back()->account.keep_in(table_, prefix);
  }
}

void LayerSync::halt_what_is_under_way() {
  for_layers<LayerExchange>([&](const LayerExchange& layer) {
    if (layer.phase == Phase::under_way) side_.engine.halt();
  });
}

void LayerSync::begin_step(const StepContext& context) {
  const bool dense = is_dense(context.step), crosses = dense != dense_phase_;
  if (crosses) flush();
  dense_phase_ = dense;
  AllreduceSync::begin_step(context);
  if (crosses) cross(dense);
  for (const Bucket& b : plan().buckets)
    if (dense || !b.sparse())
      dense_bytes_ += ring_allreduce_cost(side_.engine.size(), static_cast<double>(b.elements) * 4).bytes;
}

bool LayerSync::begin_gathering(LayerExchange& layer) {
  require<Error>(layer.phase == Phase::idle || layer.phase == Phase::gathering, name_, ": the gradient of ",
                 layer.parameter.info.name,
                 " is ready again before its last update was applied. Run its forward, or flush, first.");
  if (layer.phase == Phase::idle) layer.context = context();
  return std::exchange(layer.phase, Phase::gathering) == Phase::idle;
}

void LayerSync::hand_over_layer(LayerExchange& layer) {
  if (side_.facts.overlap == Overlap::none) return;
  layer.by_nccl ? in_turn_of(layer.parameter, [this, &layer] { send(layer); }) : send(layer);
}

void LayerSync::send_all() {
  for_layers<LayerExchange>([&](LayerExchange& layer) {
    if (layer.phase == Phase::complete) send(layer);
  });
}

void LayerSync::submit(LayerExchange& layer, std::string name, std::function<Task<>(Communicator&)> body) {
  layer.phase = Phase::under_way;
  layer.ticket = side_.engine.submit({.name = std::move(name),
                                      .slot = layer.slot,
                                      .priority = layer.priority,
                                      .device = kept_.device(),
                                      .in_order = layer.by_nccl,
                                      .body = std::move(body)});
}

void LayerSync::finish(LayerExchange& layer) {
  side_.engine.wait(std::exchange(layer.ticket, {}));
  layer.phase = Phase::idle;
}

void LayerSync::flush() {
  send_all();
  const auto for_those_under_way = [&](const auto& f) {
    for_layers<LayerExchange>([&](LayerExchange& layer) {
      if (layer.phase == Phase::under_way) f(layer);
    });
  };
  if (side_.facts.overlap != Overlap::forward)
    for_those_under_way([&](LayerExchange& layer) { side_.engine.wait(layer.ticket); });
  for_those_under_way([&](LayerExchange& layer) { apply(layer); });
  AllreduceSync::flush();
}

Costs LayerSync::costs() const {
  Costs costs = AllreduceSync::costs();
  for_layers<LayerExchange>([&](const LayerExchange& layer) { costs.buffer_bytes += layer.buffer_bytes; });
  return costs;
}

std::vector<LedgerRow> LayerSync::ledger() const {
  std::vector<LedgerRow> rows;
  if (side_.facts.ledger_every == 0) return rows;
  for_layers<LayerExchange>([&](const LayerExchange& layer) { rows.push_back(layer.ledger_row()); });
  LedgerRow others{.parameter = "(others)", .choice = "all", .bytes = dense_bytes_};
  for (const auto& p : side_.arena.parameters())
    if (layer_as<LayerExchange>(*p) == nullptr) others.elements += p->info.elements;
  rows.push_back(others);
  return rows;
}

}  // namespace laconic::dist
