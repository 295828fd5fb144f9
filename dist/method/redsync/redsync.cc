#include "dist/method/redsync/redsync.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/base/clock.h"
#include "core/raw.h"
#include "core/base/trace.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/cuda/nccl_collectives.h"
#include "dist/engine/ghost_work.h"

namespace laconic::dist {
namespace {

bool shares_indices(const ResidualTensor& t) { return t.traits().same_everywhere; }

}  // namespace

RedSync::RedSync(WorkerSide side, const SparseMethod& method, const SparseOptions& options, Density density)
    : side_(std::move(side)),
      arena_(side_.arena),
      engine_(side_.engine),
      method_(method),
      options_(options),
      density_in_(std::move(density)),
      dense_(arena_, engine_, side_.plan, side_.update, side_.facts),
      residual_(arena_.make_state()),
      layers_(arena_.parameters().size()) {
  const TrainingFacts& f = side_.facts;
  const double root = std::sqrt(static_cast<double>(engine_.size()));
  clip_norm_ = f.mean ? f.clip_norm * root : f.clip_norm / root;
  compress::MomentumRule rule;
  if (method.corrects && f.momentum != 0) {
    velocity_ = side_.velocity;
    require<Error>(velocity_.defined(), method.name, ": momentum needs the optimiser's velocity.");
    rule.momentum = static_cast<float>(f.momentum), rule.nesterov = f.nesterov;
  }
  for (const auto& p : arena_.parameters()) {
    const Bucket& bucket =
        this->plan().buckets[static_cast<std::size_t>(this->plan().bucket_of[static_cast<std::size_t>(p->info.index)])];
    if (!bucket.sparse()) continue;
    // The mean over ranks of N equal decays is one of them, their sum is N.
    if (method.corrects && side_.weight_decay)
      rule.weight_decay = static_cast<float>(side_.weight_decay(p->info) / (f.mean ? 1 : engine_.size()));
    auto& layer = layers_[static_cast<std::size_t>(p->info.index)];
    layer =
        std::make_unique<Layer>(*p, ResidualTensor(*p, bucket.choice, options_, f.seed, rule, velocity_, residual_));
    layer->slot = engine_.reserve_slots(1);
    layer->account = {p->info.name, to_string(bucket.choice), p->info.elements, f.ledger_every};
    layer->priority = bucket.priority;
    layer->chosen_late = residual_.device().kind == Device::Kind::cuda && engine_.size() > 1 && !side_.watch;
    layer->by_nccl = dense_.nccl() != nullptr && bucket.carrier() == Carrier::nccl;
    require<UsageError>(!layer->by_nccl || !options_.split,
                        "NCCL carries what all send to all (`sparse-reduce` split with `allreduce` nccl): take "
                        "`sparse-reduce` allgather, or `allreduce` ring");
    if (layer->by_nccl) {
      layer->chosen_late = false;  // the communication thread would wait in the middle of NCCL's order
      layer->packet = compress::Bytes(residual_.device());
      layer->gathered = Gathered(residual_.device());
    }
    if (options_.split)
      layer->split = std::make_unique<SplitExchange>(layer->tensor.wire(), layer->tensor.elements(), engine_.size(),
                                                     engine_.rank());
  }
}

RedSync::~RedSync() {
  for (const auto& layer : layers_)
    if (layer && layer->phase == Layer::Phase::under_way) engine_.halt();
}

void RedSync::begin_step(const StepContext& context) {
  context_ = context;
  context_.gradient_scale = side_.facts.mean ? 1.0 / engine_.size() : 1.0;
  density_ = density_in_(context.step);
  if (sparse() != was_sparse_) change_phase(sparse());
  was_sparse_ = sparse();
  dense_.begin_step(context);
  for (const Bucket& b : plan().buckets)
    if (!sparse() || !b.sparse())
      dense_bytes_ += ring_allreduce_cost(engine_.size(), static_cast<double>(b.elements) * 4).bytes;
}

/// To sparse: U is what every worker would hold if it had seen the mean of all gradients so far. To dense: V is sent at
/// once, and the common velocity is made of all U.
void RedSync::change_phase(bool to_sparse) {
  flush();
  const auto scale = static_cast<float>(context_.gradient_scale);
  for_layers([&](Layer& layer) {
    const ParameterInfo& info = layer.parameter.info;
    const Tensor velocity = velocity_.defined() ? velocity_.range(info.offset, info.elements) : Tensor();
    const Tensor residual = residual_.range(info.offset, info.elements);
    if (to_sparse) {
      // A sum over workers is to be the common velocity.
      if (velocity.defined() && !side_.facts.mean) raw::scale(velocity, 1.0f / static_cast<float>(engine_.size()));
      return;
    }
    if (!method_.corrects) return;  // V goes with the next gradient: ready()
    engine_.run(
        "sending the residual of " + info.name,
        [&](Communicator& comm) { return ring_allreduce(comm, residual.slice()); }, residual.device());
    raw::axpy(layer.parameter.value().range(0, info.elements), -static_cast<float>(context_.lr) * scale, residual);
    arena_.changed(layer.parameter.info.index, 1);
    raw::fill(residual, 0.0f);
    if (!velocity.defined()) return;
    engine_.run(
        "joining the velocities of " + info.name,
        [&](Communicator& comm) { return ring_allreduce(comm, velocity.slice()); }, velocity.device());
    raw::scale(velocity, scale);
  });
}

void RedSync::gradient_ready(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::backward, p.info.name);
  if (clip_norm_ > 0)
    unclipped_.emplace_back(&p, rows);
  else if (Layer* layer = layer_of(p); layer != nullptr && sparse() && side_.facts.overlap == Overlap::forward &&
                                       context_.step >= layer->hurried_until && !layer->by_nccl)
    layer->late.push_back(rows), some_are_late_ = true;
  else
    ready(p, rows, 1.0f);
}

/// The parameters that forward needs first come first.
void RedSync::gather_late() {
  if (!std::exchange(some_are_late_, false)) return;
  for_layers([&](Layer& layer) {
    for (const Rows& rows : std::exchange(layer.late, {})) ready(layer.parameter, rows, 1.0f);
  });
}

void RedSync::ready(Parameter& p, Rows rows, float factor) {
  Layer* layer = layer_of(p);
  if (layer == nullptr || !sparse()) {
    if (layer != nullptr && !method_.corrects) {  // what an earlier phase has left goes along
      const auto [first, count] = p.info.part(rows);
      const Tensor rest = residual_.range(p.info.offset + first, count);
      raw::axpy(p.grad().range(first, count), 1.0f, rest);
      raw::fill(rest, 0.0f);
    }
    dense_.gradient_ready(p, rows);
    return read_choice();
  }
  require<Error>(layer->phase == Layer::Phase::idle || layer->phase == Layer::Phase::gathering, method_.name,
                 ": the gradient of ", p.info.name,
                 " is ready again before its last update was applied. Run its forward, or flush, first.");
  gather(*layer, rows, factor);
  if (!layer->tensor.complete()) return;
  layer->phase = Layer::Phase::complete;
  if (layer->by_nccl) return ask_for_choice(*layer);
  if (!layer->chosen_late) choose_now(*layer);
  if (side_.facts.overlap != Overlap::none) submit(*layer);
}

/// NCCL's order is one for all ranks, so that the compute thread chooses. It reads a choice when the next gradient has
/// been asked for: while it waits, the device has work.
void RedSync::ask_for_choice(Layer& layer) {
  before_choice(layer);
  const auto begin = Clock::now();
  Asked next{.layer = &layer, .choosing = choose(layer)};
  next.choosing.go_on();
  next.has_come = Event::now(residual_.device());
  costs_.select_seconds += seconds_since(begin);
  read_choice();
  asked_ = std::move(next);
}
void RedSync::read_choice() {
  if (asked_.layer == nullptr) return;
  Asked asked = std::exchange(asked_, {});
  Layer& layer = *asked.layer;
  const auto begin = Clock::now();
  {
    const Trace::Span span(layer.parameter.info.name, "select");
    asked.has_come.synchronize();
    throw_findings(residual_.device());
    asked.choosing.run(residual_.device());
  }
  costs_.select_seconds += seconds_since(begin);
  after_choice(layer);
  if (side_.facts.overlap != Overlap::none) dense_.in_turn_of(layer.parameter, [this, &layer] { submit(layer); });
}

void RedSync::gather(Layer& layer, Rows rows, float factor) {
  const Trace::Span span(layer.parameter.info.name, "gather");
  const auto begin = Clock::now();
  if (layer.phase == Layer::Phase::idle) {
    layer.tensor.begin(*density_);
    layer.phase = Layer::Phase::gathering;
    layer.context = context_;
  }
  layer.tensor.gather(rows, factor);
  costs_.select_seconds += seconds_since(begin);
}

void RedSync::before_choice(Layer& layer) {
  if (side_.watch) side_.watch(layer.parameter, layer.tensor.residual());
  const ParameterInfo& info = layer.parameter.info;
  layer.account.before_choice(layer.context.step, residual_.range(info.offset, info.elements));
}
void RedSync::after_choice(Layer& layer) {
  const ParameterInfo& info = layer.parameter.info;
  layer.account.after_choice(layer.tensor.indices(), residual_.range(info.offset, info.elements));
  if (!layer.split) layer.account.sent(gathered_bytes(layer));
}

/// It touches nothing but this layer. On a CUDA device a message that the host sends is made there, of what was chosen.
Steps RedSync::choose(Layer& layer) {
  ResidualTensor& tensor = layer.tensor;
  Steps choosing = tensor.choose(layer.context.step);
  co_await choosing;
  Slice<const std::uint32_t> indices = tensor.indices();
  Slice<const float> values = tensor.values();
  layer.packet.clear();
  if (!shares_indices(tensor)) {
    if (indices.device().kind == Device::Kind::cuda && !layer.by_nccl) {
      const std::size_t first = indices.size_bytes();
      if (layer.brought.size() < first + values.size_bytes())
        layer.brought = Pinned(first + values.size_bytes(), indices.device());
      std::byte* const there = layer.brought.data();
      copy_bytes_later(there, kCpu, indices.data(), indices.device(), first);
      copy_bytes_later(there + first, kCpu, values.data(), values.device(), values.size_bytes());
      co_await DeviceComes{residual_.device()};
      indices = {reinterpret_cast<const std::uint32_t*>(there), indices.size()};
      values = {reinterpret_cast<const float*>(there + first), values.size()};
    }
    const Trace::Span span(layer.parameter.info.name, "pack");
    if (layer.split)
      layer.split->load(indices, values, tensor.k(), tensor.most());
    else
      tensor.wire().encode(indices, values, tensor.elements(), layer.packet);
  }
}

/// On the compute thread, which waits for the device.
void RedSync::choose_now(Layer& layer) {
  before_choice(layer);
  const auto begin = Clock::now();
  {
    const Trace::Span span(layer.parameter.info.name, "select");
    choose(layer).run(residual_.device());
  }
  costs_.select_seconds += seconds_since(begin);
  after_choice(layer);
}

/// On the communication thread, where other operations go on until the device comes to it.
Task<> RedSync::choose_late(Layer& layer, Communicator& comm) {
  before_choice(layer);
  Steps choosing = choose(layer);
  const auto go_on = [&] {
    const Trace::Span span(layer.parameter.info.name, "select");
    const auto begin = Clock::now();
    const bool more = choosing.go_on();
    layer.choosing_seconds += seconds_since(begin);
    return more;
  };
  while (go_on()) co_await comm.device_comes(residual_.device());
  after_choice(layer);
}

/// Bytes that this rank's choice costs it. A split exchange counts its own.
double RedSync::gathered_bytes(const Layer& layer) const {
  const double others = engine_.size() - 1;
  const std::size_t header = layer.by_nccl ? kNcclPartHeader : kPartHeader;
  if (!shares_indices(layer.tensor)) return others * static_cast<double>(layer.packet.size() + header);
  return 2 * others / engine_.size() * 4 * static_cast<double>(layer.tensor.indices().size());
}

void RedSync::submit(Layer& layer) {
  layer.phase = Layer::Phase::under_way;
  const std::size_t most_bytes = layer.tensor.wire().max_bytes(layer.tensor.most(), layer.tensor.elements());
  Operation operation{.name = "sparse exchange of " + layer.parameter.info.name,
                      .slot = layer.slot,
                      .priority = layer.priority,
                      .device = residual_.device(),
                      .in_order = layer.by_nccl};
  if (layer.by_nccl)
    operation.body = [&layer, most_bytes, nccl = dense_.nccl()](Communicator&) -> Task<> {
      if (shares_indices(layer.tensor))
        nccl->allreduce(layer.tensor.shared_values());
      else
        nccl_allgather(*nccl, layer.packet.slice(), most_bytes, layer.gathered);
      co_return;
    };
  else
    operation.body = [this, &layer, most_bytes](Communicator& comm) -> Task<> {
      if (layer.chosen_late) co_await choose_late(layer, comm);
      if (layer.split)
        co_await layer.split->run(comm);
      else if (shares_indices(layer.tensor))
        co_await ring_allreduce(comm, layer.tensor.shared_values());
      else
        co_await allgatherv(comm, layer.packet.slice(), most_bytes, layer.gathered);
    };
  layer.ticket = engine_.submit(std::move(operation));
}

void RedSync::submit_complete() {
  gather_late();
  clip_and_gather();
  read_choice();
  for_layers([&](Layer& layer) {
    if (layer.phase == Layer::Phase::complete) submit(layer);
  });
}

/// Local clipping: the whole gradient of this rank has to be there before the first of it is gathered.
void RedSync::clip_and_gather() {
  if (unclipped_.empty()) return;
  std::vector<Tensor> gradients;
  for (const auto& p : arena_.parameters()) gradients.push_back(p->grad());
  const double scale = clip_norm_ / (std::sqrt(raw::sum_of_squares(gradients)) + 1e-6);
  const float factor = scale < 1 || std::isnan(scale) ? static_cast<float>(scale) : 1.0f;
  for (const auto& p : arena_.parameters()) {
    const Layer* layer = layer_of(*p);
    const bool gathers = layer != nullptr && sparse() && !layer->tensor.traits().needs_latest;
    if (factor != 1.0f && !gathers) raw::scale(p->grad(), factor);
  }
  for (const auto& [p, rows] : std::exchange(unclipped_, {})) {
    const Layer* layer = layer_of(*p);
    const bool scaled = layer != nullptr && layer->tensor.traits().needs_latest;
    ready(*p, rows, scaled ? 1.0f : factor);
  }
}

void RedSync::before_forward(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::forward, p.info.name);
  gather_late();
  Layer* layer = layer_of(p);
  if (layer == nullptr || layer->phase == Layer::Phase::idle) return dense_.before_forward(p, rows);
  if (layer->phase == Layer::Phase::complete) submit_complete();
  if (layer->phase != Layer::Phase::under_way) return;
  await(*layer);
  apply(*layer);
}

/// As forward needs it; whoever has to wait has reason to hurry for some steps.
void RedSync::await(Layer& layer) {
  constexpr double kWorthNothing = 3e-4;
  constexpr std::int64_t kHurriedSteps = 50;
  const double before = engine_.counters().exposed_seconds;
  engine_.wait(layer.ticket);
  if (engine_.counters().exposed_seconds - before > kWorthNothing)
    layer.hurried_until = layer.context.step + kHurriedSteps;
}

void RedSync::apply(Layer& layer) {
  engine_.wait(std::exchange(layer.ticket, {}));
  layer.phase = Layer::Phase::idle;
  costs_.select_seconds += std::exchange(layer.choosing_seconds, 0.0);
  layer.buffer_bytes = layer.packet.size() + (layer.split ? layer.split->buffer_bytes() : layer.gathered.capacity());
  const auto begin = Clock::now();
  Parameter& p = layer.parameter;
  if (method_.corrects) {
    const Trace::Span span(p.info.name, "update");
    add_received(layer, -static_cast<float>(layer.context.lr * layer.context.gradient_scale), p.value().slice());
    arena_.changed(p.info.index, 1);
  } else {
    raw::fill(p.grad(), 0.0f);
    add_received(layer, 1.0f, p.grad().slice());
    side_.update(p, p.all_rows(), layer.context);
  }
  costs_.update_seconds += seconds_since(begin);
}

/// dense += factor times everything that was sent, in rank order.
void RedSync::add_received(Layer& layer, float factor, Slice<float> dense) {
  ResidualTensor& tensor = layer.tensor;
  if (shares_indices(tensor)) {
    if (layer.account.measuring()) layer.account.received(tensor.k());
    GhostWork::tell(dense.device(), Work::scattering, tensor.k());
    return compress::scatter_add(tensor.indices(), tensor.values(), factor, dense);
  }
  const Gathered& all = layer.split ? layer.split->all() : layer.gathered;
  const SparseWire& wire = layer.split ? layer.split->wire() : tensor.wire();
  std::size_t views = 0;
  for (int r = 0; r < all.size(); ++r)
    views = reading([&] { return wire.read(all[r], tensor.elements(), views_, views); }, method_.name, ": what rank ",
                    r, " sent of ", layer.parameter.info.name);
  views_.resize(views);
  for (const compress::SparseView& view : views_) GhostWork::tell(dense.device(), Work::scattering, view.size());
  compress::scatter_add(views_, factor, dense);
  if (layer.account.measuring()) layer.account.received(compress::united(views_));
  if (!layer.split) return;
  layer.account.sent(static_cast<double>(layer.split->own_bytes()));
  compress::scatter_add(slice(layer.split->dropped_indices()), slice(layer.split->dropped_values()), 1.0f,
                        tensor.residual());
}

std::vector<LedgerRow> RedSync::ledger() const {
  std::vector<LedgerRow> rows;
  if (side_.facts.ledger_every == 0) return rows;
  LedgerRow others{.parameter = "(others)", .choice = "all"};
  for (const auto& p : arena_.parameters())
    if (!layers_[static_cast<std::size_t>(p->info.index)]) others.elements += p->info.elements;
  others.bytes = dense_bytes_;
  rows.push_back(others);
  for (const auto& layer : layers_)
    if (layer) rows.push_back(layer->account.row());
  std::reverse(rows.begin(), rows.end());  // the arena ends with what forward reaches first
  return rows;
}

void RedSync::end_step() {
  gather_late();
  clip_and_gather();
  read_choice();
  if (side_.facts.overlap != Overlap::forward) flush();
  dense_.end_step();
}

Costs RedSync::costs() const {
  Costs costs = dense_.costs();
  costs.select_seconds += costs_.select_seconds, costs.update_seconds += costs_.update_seconds;
  for (const auto& layer : layers_)
    if (layer) costs.buffer_bytes += layer->buffer_bytes;
  return costs;
}

/// A warm-up begins with all, or with most. A packet grows while it is written.
double RedSync::message_bytes() const {
  const std::optional<double> first = density_in_(1);
  const double density = first.value_or(options_.density), N = engine_.size();
  double bytes = dense_.message_bytes([](const Bucket& b) { return !b.sparse(); });
  for (const auto& layer : layers_) {
    if (!layer) continue;
    const ResidualTensor& tensor = layer->tensor;
    const auto own = static_cast<double>(tensor.most_message_bytes(density));
    bytes += tensor.choosing_bytes(density);
    if (!shares_indices(tensor)) bytes += layer->split ? (N + 6) * own : 1.5 * own + N * (kPartHeader + own);
  }
  return first ? bytes : std::max(bytes, dense_.message_bytes());
}

void RedSync::flush() {
  submit_complete();
  if (side_.facts.overlap != Overlap::forward)
    for_layers([&](const Layer& layer) {
      if (layer.phase == Layer::Phase::under_way) engine_.wait(layer.ticket);
    });
  for_layers([&](Layer& layer) {
    if (layer.phase == Layer::Phase::under_way) apply(layer);
  });
  dense_.flush();
}

void RedSync::save(RankState& state) const {
  state.set(prefix() + "residual", residual_, side_.facts.put_by());
  const std::int64_t phase = was_sparse_ ? 1 : 0, whole = std::bit_cast<std::int64_t>(dense_bytes_);
  state.set_numbers(prefix() + "sparse", {&phase, 1}, Join::equal);
  if (side_.facts.ledger_every > 0) state.set_numbers(prefix() + "dense_bytes", {&whole, 1}, Join::own);
  for (const auto& layer : layers_) {
    if (!layer) continue;
    const std::string name = prefix() + layer->parameter.info.name + "/";
    state.save(name, layer->tensor);
    state.save(name, layer->account, Join::own);
  }
}

std::vector<RankState::Range> RedSync::own_velocity() const {
  std::vector<RankState::Range> own;
  for (const auto& layer : layers_)
    if (layer && velocity_.defined() && was_sparse_)
      own.emplace_back(layer->parameter.info.offset, layer->parameter.info.elements);
  return own;
}

void RedSync::load(const StateDict& state) {
  const StateDict mine = state.part(prefix());
  mine.copy_to(residual_, "residual", "the residual");
  was_sparse_ = mine.numbers("sparse", 1, concat("the state of ", method_.name))[0] != 0;
  for (const auto& layer : layers_) {
    if (!layer) continue;
    const StateDict part = mine.part(layer->parameter.info.name + "/");
    layer->tensor.load(part);
    layer->account.load(part);
  }
  if (side_.facts.ledger_every > 0 && mine.contains("dense_bytes"))
    dense_bytes_ = std::bit_cast<double>(mine.numbers("dense_bytes", 1, concat("the ledger of ", method_.name))[0]);
}

}  // namespace laconic::dist
