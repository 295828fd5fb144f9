// RedSync's Algorithm 4, "Residual Gradient Compression using MSGD", in the order in which it is printed. What is done
// for a step, for all layers, and for one layer j:
//
//     for t = 0, 1, …                                            begin_step (dist/method/layer_sync.cc)
//       G = ∇f(χ; w)                                             backward
//       for j = #layer, #layer - 1, …, 0                         gradient_ready, in the order of backward
//         U = momentum U + G;  V = V + U                         take: ResidualTensor::gather
//         Masks = selection(V, D)                                Layer::choose: ResidualTensor::choose
//         V = V (1 - Masks);  U = U (1 - Masks)                  ResidualTensor::choose
//         G = Allreduce(compress(V Masks))                       Carry::pack; send: Carry::run
//       w = SGD(w, decompress(G))                                before_forward of layer j: apply, Carry::add_to
#include "dist/method/redsync/redsync.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/raw.h"
#include "dist/method/redsync/phases.h"

namespace laconic::dist {

void RedSync::gradient_ready(Parameter& p, Rows rows) {
  side_.engine.at(Engine::Phase::backward, p.info.name);
  const Layer* layer = dense_phase_ ? nullptr : layer_of(p);
  if (clip_norm_ > 0 || (layer != nullptr && choosing_.may_wait(*layer, context().step)))
    waiting_.emplace_back(&p, rows);
  else
    take(p, rows, 1.0f);
}

/// U = momentum U + factor G, V = V + U; and when all of the layer's gradient has come, Masks = selection(V, D).
void RedSync::take(Parameter& p, Rows rows, float factor) {
  Layer* layer = layer_of(p);
  if (layer == nullptr || dense_phase_) {
    if (layer != nullptr && !method_.corrects) send_along(layer->residual, p, rows);
    AllreduceSync::gradient_ready(p, rows);
    return choosing_.read_last();
  }
  {
    const Doing gather(p.info.name, "gather", select_seconds_);
    if (begin_gathering(*layer)) layer->residual.begin(*density_);
    layer->residual.gather(rows, factor);
  }
  if (layer->residual.complete()) choosing_.choose(*layer);
}

/// G = Allreduce(compress(V Masks)). What travels by NCCL is the operation itself, since it gives way to no other.
void RedSync::send(LayerExchange& of) {
  auto& layer = static_cast<Layer&>(of);
  std::function<Task<>(Communicator&)> body = [&layer](Communicator& comm) { return layer.carry.run(comm); };
  if (choosing_.late(layer))
    body = [this, &layer](Communicator& comm) -> Task<> {
      co_await choosing_.choose_late(layer, comm);
      co_await layer.carry.run(comm);
    };
  submit(layer, "sparse exchange of " + layer.parameter.info.name, std::move(body));
}

void RedSync::send_all() {
  end_backward();
  LayerSync::send_all();
}

/// Gathers what has waited for it.
void RedSync::end_backward() {
  if (!waiting_.empty()) {
    const float factor = clip_norm_ > 0 ? clip() : 1.0f;
    std::stable_sort(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) {
      return a.first->info.index > b.first->info.index;  // forward needs it first
    });
    for (const auto& [p, rows] : std::exchange(waiting_, {})) take(*p, rows, gathers(*p) ? factor : 1.0f);
  }
  choosing_.read_last();
}

/// Local clipping. Returns what the gathering pass is to multiply gradients by; others are multiplied here.
float RedSync::clip() {
  std::vector<Tensor> gradients;
  for (const auto& p : side_.arena.parameters()) gradients.push_back(p->grad());
  const double scale = clip_norm_ / (std::sqrt(raw::sum_of_squares(gradients)) + 1e-6);
  if (scale >= 1) return 1.0f;
  for (const auto& p : side_.arena.parameters())
    if (!gathers(*p)) raw::scale(p->grad(), static_cast<float>(scale));
  return static_cast<float>(scale);
}

bool RedSync::gathers(const Parameter& p) const {
  const Layer* layer = layer_of(p);
  return layer != nullptr && !dense_phase_ && !layer->residual.traits().needs_latest;
}

void RedSync::end_step() {
  end_backward();
  AllreduceSync::end_step();
}

void RedSync::before_forward(Parameter& p, Rows rows) {
  side_.engine.at(Engine::Phase::forward, p.info.name);
  Layer* layer = layer_of(p);
  if (layer == nullptr || layer->phase == Phase::idle) return AllreduceSync::before_forward(p, rows);
  if (layer->phase == Phase::complete) send_all();
  if (layer->phase != Phase::under_way) return;
  const double before = side_.engine.counters().exposed_seconds;
  side_.engine.wait(layer->ticket);
  Choosing::waited(*layer, side_.engine.counters().exposed_seconds - before);
  apply(*layer);
}

/// w = SGD(w, decompress(G))
void RedSync::apply(LayerExchange& of) {
  auto& layer = static_cast<Layer&>(of);
  finish(layer);
  layer.buffer_bytes = layer.carry.buffer_bytes();
  select_seconds_ += std::exchange(layer.late_seconds, 0.0);
  Parameter& p = layer.parameter;
  const Doing update(p.info.name, "update", update_seconds_);
  if (method_.corrects) {
    const auto lr = static_cast<float>(layer.context.lr * layer.context.gradient_scale);
    layer.carry.add_to(p.value().slice(), -lr);
    side_.arena.changed(p.info.index, 1);
  } else {
    raw::fill(p.grad(), 0.0f);
    layer.carry.add_to(p.grad().slice(), 1.0f);
    side_.update(p, p.all_rows(), layer.context);
  }
  if (layer.account.measuring()) layer.account.received(layer.carry.united());
}

void RedSync::cross(bool to_dense) {
  for_layers<Layer>([&](Layer& layer) {
    if (!to_dense) begin_sparse_phase(side_, layer.residual);
    if (to_dense && method_.corrects) begin_dense_phase(side_, layer.residual, layer.parameter, context());
  });
}

RedSync::RedSync(WorkerSide side, const SparseMethod& method, const SparseOptions& options, Density density)
    : LayerSync(std::move(side), method.name, "residual", "the residual"),
      method_(method),
      options_(options),
      density_in_(std::move(density)),
      clip_norm_(side_.facts.mean ? side_.facts.clip_norm * std::sqrt(static_cast<double>(side_.engine.size()))
                                  : side_.facts.clip_norm / std::sqrt(static_cast<double>(side_.engine.size()))),
      choosing_(side_, select_seconds_, [this](Layer& layer) { hand_over_layer(layer); }) {
  make_layers([this](Parameter& p, const Bucket& bucket) { return make_layer(p, bucket); });
  const std::string sparse = name_ + "/sparse";
  table_.row(
      [=, this](RankState& state) {
        state.set_numbers(sparse, std::array<std::int64_t, 1>{dense_phase_ ? 0 : 1}, Join::equal);
      },
      [=, this](const StateDict& state) { dense_phase_ = state.numbers(sparse, 1, "the state of " + name_)[0] == 0; });
}

std::unique_ptr<Layer> RedSync::make_layer(Parameter& p, const Bucket& bucket) {
  const TrainingFacts& f = side_.facts;
  compress::MomentumRule rule;
  const bool has_velocity = method_.corrects && f.momentum != 0;
  require<Error>(!has_velocity || side_.velocity.defined(), method_.name, ": momentum needs the optimiser's velocity.");
  if (has_velocity) rule.momentum = static_cast<float>(f.momentum), rule.nesterov = f.nesterov;
  // The mean over ranks of N equal decays is one of them, their sum is N.
  if (method_.corrects && side_.weight_decay)
    rule.weight_decay = static_cast<float>(side_.weight_decay(p.info) / (f.mean ? 1 : side_.engine.size()));
  ResidualTensor residual(p, bucket.choice, options_, f, rule, has_velocity ? side_.velocity : Tensor(), kept_);
  Carry::Form form{.method = method_.name,
                   .parameter = p.info.name,
                   .elements = residual.elements(),
                   .wire = residual.wire(),
                   .same_places = residual.traits().same_everywhere,
                   .device = kept_.device(),
                   .workers = side_.engine.size(),
                   .nccl = by_nccl(bucket) ? nccl() : nullptr};
  return std::make_unique<Layer>(p, bucket, std::move(residual), std::move(form), f.ledger_every);
}

/// A warm-up begins with all, or with most.
double RedSync::message_bytes() const {
  const std::optional<double> first = density_in_(1);
  const double density = first.value_or(options_.density);
  double bytes = AllreduceSync::message_bytes([](const Bucket& b) { return !b.sparse(); });
  for_layers<Layer>([&](const Layer& layer) {
    bytes += layer.residual.choosing_bytes(density) + layer.carry.most_bytes(layer.residual.most_at(density));
  });
  return first ? bytes : std::max(bytes, AllreduceSync::message_bytes());
}

std::vector<RankState::Range> RedSync::own_velocity() const {
  std::vector<RankState::Range> own;
  for (const auto& p : side_.arena.parameters())
    if (const Layer* layer = layer_of(*p); layer != nullptr && layer->residual.velocity().defined() && !dense_phase_)
      own.emplace_back(p->info.offset, p->info.elements);
  return own;
}

}  // namespace laconic::dist
