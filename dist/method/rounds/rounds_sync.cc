#include "dist/method/rounds/rounds_sync.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/base/trace.h"
#include "core/raw.h"
#include "dist/collective/ring_allreduce.h"

namespace laconic::dist {
namespace {

/// Parameters of the same shapes, in the order in which they are registered.
std::vector<std::shared_ptr<Parameter>> twins_of(const ParameterArena& arena) {
  std::vector<std::shared_ptr<Parameter>> twins;
  const bool ghosts = arena.values().device() == kGhost;
  for (auto p = arena.parameters().rbegin(); p != arena.parameters().rend(); ++p) {
    twins.push_back(std::make_shared<Parameter>((*p)->info.shape, (*p)->info.role, ghosts ? kGhost : kCpu));
    twins.back()->info.name = (*p)->info.name;
    twins.back()->info.output = (*p)->info.output;
  }
  return twins;
}

/// These rows of a parameter, in what is laid out like the arena.
Tensor rows_in(const Tensor& state, const Parameter& p, Rows rows) {
  const auto [first, count] = p.info.part(rows);
  return state.range(p.info.offset + first, count);
}

/// A worker's weight in the mean over all who have seen these samples.
double weight_among(std::span<const std::int64_t> samples, int worker) {
  return weight_of(samples[static_cast<std::size_t>(worker)],
                   std::accumulate(samples.begin(), samples.end(), std::int64_t{0}), static_cast<int>(samples.size()));
}

}  // namespace

RoundsSync::RoundsSync(WorkerSide side, const Rules& rules)
    : rules_(rules),
      arena_(side.arena),
      engine_(side.engine),
      seed_(side.facts.seed),
      outer_(twins_of(side.arena), side.arena.values().device()),
      velocity_(rules.momentum > 0 ? outer_.make_state() : Tensor()),
      exchange_(make_exchange(side)),
      own_(side.arena, side.update),
      arriving_(side.arena, [this](Parameter& p, Rows rows, const StepContext&) { take_over(p, rows); }),
      joint_(side.arena) {
  if (rules.dense_steps > 0) dense_.emplace(side.arena, side.engine, side.plan, side.update, side.facts);
  divide();
  const std::vector<std::int64_t> none(static_cast<std::size_t>(engine_.size()));
  seen_.assign(due_.size(), {none, none});
  make_table();
}

void RoundsSync::make_table() {
  const Join joined = rules_.pairs ? Join::mean : Join::equal;  // as the parameters are
  table_.tensor("rounds/outer", outer_.values(), joined, "the outer model of rounds");
  if (velocity_.defined()) table_.tensor("rounds/velocity", velocity_, joined, "the outer momentum of rounds");
  std::vector<StateTable::Number> steps{&done_}, samples;
  for (std::int64_t& due : due_) steps.push_back(&due);
  for (Seen& seen : seen_)
    for (auto* const some : {&seen.since_sent, &seen.since_equal})
      for (std::int64_t& n : *some) samples.push_back(&n);
  table_.numbers("rounds/steps", std::move(steps), Join::equal, "the state of rounds");
  table_.numbers("rounds/began", {&began_}, Join::equal, "the state of rounds", false);
  // Of other workers it has another shape: all are equal then.
  table_.numbers("rounds/samples", std::move(samples), Join::equal, "the state of rounds", false);
  table_.row([](RankState&) {},
             [this](const StateDict&) {
               for (const auto& p : arena_.parameters())
                 if (due_[fragment_of(*p)] > done_) arriving_.gradient_ready(*p, p->all_rows());
             });
  table_.object("rounds/exchange/", *exchange_);
  if (dense_) table_.object("rounds/dense/", *dense_);
}

std::unique_ptr<BucketSync> RoundsSync::make_exchange(const WorkerSide& side) {
  const Update step = [this](Parameter& p, Rows rows, const StepContext& context) {
    outer_step(p, rows, context.gradient_scale);
  };
  const WorkerSide outer{
      .facts = side.facts, .arena = outer_, .engine = side.engine, .plan = side.plan, .update = step};
  if (rules_.pairs) return std::make_unique<PairSync>(outer, rules_.pull / rules_.lr);
  if (rules_.chosen)
    return std::make_unique<Exchange>(outer, TopK::form(side.facts), [this](PartPlace place) {
      return TopK{*rules_.chosen, rules_.feedback}.part(std::move(place));
    });
  return std::make_unique<AllreduceSync>(outer_, side.engine, side.plan, step, side.facts);
}

/// Neighbours in the arena, of about equal size. A message belongs to one fragment; so does a parameter that travels in
/// several.
void RoundsSync::divide() {
  const Plan& plan = exchange_->plan();
  std::vector<std::pair<int, std::int64_t>> units;  // parameters that travel together: the first place, elements
  for (const Bucket& b : plan.buckets) {
    if (units.empty() || units.back().first != b.first) units.emplace_back(b.first, 0);
    units.back().second += b.elements;
  }
  const auto count = static_cast<std::size_t>(rules_.fragments);
  require<UsageError>(count <= units.size(), "the model travels in ", units.size(),
                      " messages, which are not enough for ", count, " fragments (`fragments`): give at most ",
                      units.size());
  due_.resize(count);
  const auto all = static_cast<double>(outer_.size());
  double before = 0;
  std::size_t fragment = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto elements = static_cast<double>(units[u].second);
    const bool full = before + elements / 2 >= all * static_cast<double>(fragment + 1) / static_cast<double>(count);
    const bool must = units.size() - u == count - fragment - 1;  // one each for those that have none yet
    if (u > 0 && fragment + 1 < count && (full || must)) ++fragment;
    const int end = u + 1 < units.size() ? units[u + 1].first : static_cast<int>(outer_.parameters().size());
    fragments_.resize(static_cast<std::size_t>(end), fragment);
    before += elements;
  }
}

void RoundsSync::begin_step(const StepContext& context) {
  context_ = context;
  if (dense()) return dense_->begin_step(context);
  if (began_ < 0) {
    if (dense_) dense_->flush();
    // All workers are equal in that step. A simulation begins later, and so does a checkpoint that does not say when.
    if (context.step == rules_.dense_steps + 1) outer_.values().copy_from(arena_.values());
    began_ = rules_.dense_steps;
  }
  StepContext own = context;
  own.gradient_scale = context.scale_to_own_mean();
  own_.begin_step(own);
}

void RoundsSync::gradient_ready(Parameter& p, Rows rows) {
  learned_ = true;
  dense() ? dense_->gradient_ready(p, rows) : own_.gradient_ready(p, rows);
}

void RoundsSync::before_forward(Parameter& p, Rows rows) {
  if (dense()) return dense_->before_forward(p, rows);
  own_.before_forward(p, rows);
  if (due_[fragment_of(p)] > done_) return;
  exchange_->before_forward(outer_of(p), rows);
  arriving_.before_forward(p, rows);
}

bool RoundsSync::ends_round(std::size_t fragment) const {
  const std::int64_t ahead = static_cast<std::int64_t>(fragment) * rules_.every / rules_.fragments;
  return (context_.step - began_ + ahead) % rules_.every == 0;
}

void RoundsSync::end_step() {
  const bool learned = std::exchange(learned_, false);
  if (dense()) dense_->end_step();
  for (std::size_t f = 0; f < due_.size() && !dense(); ++f) {
    for (int worker = 0; learned && worker < engine_.size(); ++worker)
      for (auto* const samples : {&seen_[f].since_sent, &seen_[f].since_equal})
        (*samples)[static_cast<std::size_t>(worker)] += context_.samples.of(worker);
    if (ends_round(f)) send(f);
    const bool all_take_over_the_same = rules_.mix == 0 && !(rules_.pairs && engine_.size() > 2);
    if (due_[f] == context_.step && all_take_over_the_same) std::ranges::fill(seen_[f].since_equal, 0);
  }
  done_ = context_.step;
}

/// Of this worker's d in what it is summed up with.
double RoundsSync::weight_of_change(std::size_t fragment) const {
  const std::vector<std::int64_t>& samples = seen_[fragment].since_sent;
  if (!rules_.pairs) return weight_among(samples, engine_.rank());
  const auto other = partner_of(engine_.rank(), engine_.size(), seed_, context_.step);
  const auto of = [&](int worker) { return samples[static_cast<std::size_t>(worker)]; };
  return other ? weight_among(std::array{of(engine_.rank()), of(*other)}, 0) : 1;
}

/// The layers that the next forward needs first are sent first.
void RoundsSync::send(std::size_t fragment) {
  const Trace::Span span("end of a round", "update");
  exchange_->begin_step(context_);
  arriving_.begin_step(context_);
  auto* const sums = dynamic_cast<AllreduceSync*>(exchange_.get());
  const std::vector<Bucket>& buckets = exchange_->plan().buckets;
  const auto weight = static_cast<float>(weight_of_change(fragment));
  for (std::size_t b = buckets.size(); b-- > 0;) {
    const Bucket& bucket = buckets[b];
    if (fragments_[static_cast<std::size_t>(bucket.first)] != fragment) {
      if (sums != nullptr && sums->by_nccl(bucket)) sums->in_turn(b, nullptr);
      continue;
    }
    const auto each = [&](auto f) {
      for (int i = bucket.first; i < bucket.first + bucket.count; ++i) {
        Parameter& p = *arena_.parameters()[static_cast<std::size_t>(i)];
        f(p, rows_of(bucket, p));
      }
    };
    each([&](Parameter& p, Rows rows) { before_forward(p, rows); });  // this step's update
    const Tensor difference = outer_.gradients().range(bucket.offset, bucket.elements);
    difference.copy_from(outer_.values().range(bucket.offset, bucket.elements));
    raw::axpy(difference, -1.0f, arena_.values().range(bucket.offset, bucket.elements));
    if (weight != 1) raw::scale(difference, weight);
    GhostWork::tell(difference.device(), Work::adding, difference.bytes());
    each([&](Parameter& p, Rows rows) {
      arriving_.gradient_ready(p, rows);
      exchange_->gradient_ready(outer_of(p), rows);
    });
  }
  exchange_->end_step();
  due_[fragment] = context_.step + rules_.delay;
  std::ranges::fill(seen_[fragment].since_sent, 0);
}

/// What came is a sum over workers; `scale` makes a mean of it.
void RoundsSync::outer_step(const Parameter& p, Rows rows, double scale) {
  const Tensor x = rows_in(outer_.values(), p, rows), sum = rows_in(outer_.gradients(), p, rows);
  GhostWork::tell(x.device(), Work::adding, x.bytes());
  const auto lr = static_cast<float>(rules_.lr), m = static_cast<float>(rules_.momentum);
  const auto scaled_lr = static_cast<float>(rules_.lr * scale);
  if (!velocity_.defined()) return raw::axpy(x, -scaled_lr, sum);
  const Tensor v = rows_in(velocity_, p, rows);
  raw::scale(v, m);
  raw::axpy(v, static_cast<float>(scale), sum);
  if (rules_.nesterov) raw::axpy(x, -scaled_lr, sum);
  raw::axpy(x, rules_.nesterov ? -lr * m : -lr, v);
}

void RoundsSync::take_over(const Parameter& p, Rows rows) {
  const Tensor w = rows_in(arena_.values(), p, rows), x = rows_in(outer_.values(), p, rows);
  if (rules_.mix == 0) {
    w.copy_from(x);
  } else {
    raw::scale(w, static_cast<float>(rules_.mix));
    raw::axpy(w, static_cast<float>(1 - rules_.mix), x);
  }
  GhostWork::tell(w.device(), Work::adding, w.bytes());
  arena_.changed(p.info.index, 1);
}

void RoundsSync::flush() {
  if (dense()) return dense_->flush();
  own_.flush();
  if (done_ < context_.step) return;
  exchange_->flush();
  for (const auto& p : arena_.parameters()) before_forward(*p, p->all_rows());
}

Costs RoundsSync::costs() const {
  Costs costs = exchange_->costs() + own_.costs() + arriving_.costs();
  if (!dense_) return costs;
  const std::uint64_t most = std::max(costs.buffer_bytes, dense_->costs().buffer_bytes);
  costs = costs + dense_->costs();
  costs.buffer_bytes = most;
  return costs;
}

double RoundsSync::message_bytes() const {
  return std::max(exchange_->message_bytes(), dense_ ? dense_->message_bytes() : 0);
}

std::optional<double> RoundsSync::weight_in_mean(const Parameter& p) const {
  return weight_among(seen_[fragment_of(p)].since_equal, engine_.rank());
}

void RoundsSync::show_joint_model() {
  const Tensor mean = arena_.gradients();
  mean.copy_from(arena_.values());
  if (engine_.size() > 1) {
    for (const auto& p : arena_.parameters())
      if (const double weight = *weight_in_mean(*p); weight != 1)
        raw::scale(rows_in(mean, *p, p->all_rows()), static_cast<float>(weight));
    engine_.run(
        "mean of the workers' models", [&](Communicator& comm) { return ring_allreduce(comm, mean.slice()); },
        mean.device());
    raw::scale(mean, 1.0f / static_cast<float>(engine_.size()));
  }
  joint_.show();
}

}  // namespace laconic::dist
