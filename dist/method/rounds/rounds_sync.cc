#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "core/base/trace.h"
#include "core/raw.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/method/allreduce_sync.h"
#include "dist/method/none/no_sync.h"
#include "dist/method/rounds/rounds.h"
#include "dist/server/shard.h"

namespace laconic::dist {
namespace {

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

/// Rounds of local steps: every worker trains by itself, and now and then all join what they have learned since. Each
/// worker has the outer model x besides its own, w. They begin alike; x has the same bits on all workers always, but
/// with pairs.
///
///     every step                 w = the worker's own update of w, by its own gradient
///     after H steps              d = x - w starts on its way: the pseudo-gradient, summed by AllreduceSync; or the
///                                largest elements of it and of what is left of earlier ones, summed by TopK;
///                                or it meets that of one other worker only, and the two x pull each other: PairSync
///     TAU steps later            D = mean of d over the workers, weighed by the samples that each has
///                                seen in the round
///                                v = m v + D
///                                with pairs: mean over the pair, + (GAMMA / lr) (x - mean of x over the pair)
///                                x -= lr D  (sgd),  lr v  (momentum),  lr (D + m v)  (nesterov)
///                                w = ALPHA w + (1 - ALPHA) x
///
/// The parameters may be divided into fragments, neighbours of about equal size that end their rounds one after the
/// other, H / P steps apart. No exchange sees another's, so that P fragments and a delay spread one round's bytes over
/// all its steps. The state of the workers' optimisers stays where it is and is not joined.
///
/// Values are taken over before the parameter's next forward, at a step that is fixed beforehand, whenever the messages
/// have come: neither overlap, nor a flush, nor a stop changes a bit. The joint model, which is evaluated and saved, is
/// the mean of the workers' models as they are at that step, weighed by the samples that each has seen since all held
/// the same. So nothing that they have learned in a round that has not ended is left out.
///
/// A worker without samples steps by zeros, so its w moves by momentum and weight decay alone. Its d counts nothing, as
/// its gradient does in a dense step: a round of one step of plain SGD is one, in a short batch too.
///
///   cost    of memory: x, d, v if there is momentum, and with pairs what comes, each a copy of the parameters. Of
///           time: when a round ends, d is computed (3 passes over it), and when it comes, x and w (2 to 7 passes)
///   throws  what AllreduceSync and TopK throw; UsageError if there are more fragments than the plan has messages
///   source  Stich 2019 (local SGD: sgd, lr 1), Lin et al. 2020 (post-local SGD: dense steps first), Wang et al. 2020
///           (SlowMo: momentum; the same while the inner rate is constant), Douillard et al. 2023 (DiLoCo: nesterov, lr
///           0.7, m 0.9) and 2025 (Streaming DiLoCo: fragments, TAU, ALPHA; its Algorithm 2), Sarfi et al. 2025
///           (SparseLoCo: chosen), Kolehmainen et al. 2025 (NoLoCo: pairs)
class RoundsSync final : public Strategy {
 public:
  RoundsSync(WorkerSide side, const RoundsRules& rules)
      : rules_(rules),
        arena_(side.arena),
        engine_(side.engine),
        seed_(side.facts.seed),
        outer_(twins_of(infos_of(side.arena.parameters()), side.arena.values().device()), side.arena.values().device()),
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

  void begin_step(const StepContext& context) override {
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

  void gradient_ready(Parameter& p, Rows rows) override {
    learned_ = true;
    dense() ? dense_->gradient_ready(p, rows) : own_.gradient_ready(p, rows);
  }

  void before_forward(Parameter& p, Rows rows) override {
    if (dense()) return dense_->before_forward(p, rows);
    own_.before_forward(p, rows);
    if (due_[fragment_of(p)] > done_) return;
    exchange_->before_forward(outer_of(p), rows);
    arriving_.before_forward(p, rows);
  }

  void end_step() override {
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

  /// Waits for all messages. Values whose step has not come yet are not taken over. Between begin_step and end_step
  /// only the worker's own updates are made: the trainer may ask for them before it limits the gradient's length.
  void flush() override {
    if (dense()) return dense_->flush();
    own_.flush();
    if (done_ < context_.step) return;
    exchange_->flush();
    for (const auto& p : arena_.parameters()) before_forward(*p, p->all_rows());
  }

  Costs costs() const override {
    Costs costs = exchange_->costs() + own_.costs() + arriving_.costs();
    if (!dense_) return costs;
    const std::uint64_t most = std::max(costs.buffer_bytes, dense_->costs().buffer_bytes);
    costs = costs + dense_->costs();
    costs.buffer_bytes = most;
    return costs;
  }
  double message_bytes() const override {
    return std::max(exchange_->message_bytes(), dense_ ? dense_->message_bytes() : 0);
  }
  void hide_joint_model() override { joint_.hide(); }
  std::optional<double> drift() const override { return joint_.drift(); }
  std::optional<double> weight_in_mean(const Parameter& p) const override {
    return weight_among(seen_[fragment_of(p)].since_equal, engine_.rank());
  }
  void show_joint_model() override {
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

 private:
  bool dense() const { return began_ < 0 && context_.step <= rules_.dense_steps; }
  Parameter& outer_of(const Parameter& own) const {
    return *outer_.parameters()[static_cast<std::size_t>(own.info.index)];
  }
  std::size_t fragment_of(const Parameter& p) const { return fragments_[static_cast<std::size_t>(p.info.index)]; }

  void make_table() {
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

  std::unique_ptr<BucketSync> make_exchange(const WorkerSide& side) {
    const Update step = [this](Parameter& p, Rows rows, const StepContext& context) {
      outer_step(p, rows, context.gradient_scale);
    };
    const WorkerSide outer{
        .facts = side.facts, .arena = outer_, .engine = side.engine, .plan = side.plan, .update = step};
    if (rules_.pairs) return make_pair_sync(outer, rules_.pull / rules_.lr);
    if (rules_.chosen)
      return std::make_unique<Exchange>(outer, TopK::form(side.facts), [this](PartPlace place) {
        return TopK{*rules_.chosen, rules_.feedback}.part(std::move(place));
      });
    return std::make_unique<AllreduceSync>(outer_, side.engine, side.plan, step, side.facts);
  }

  /// Neighbours in the arena, of about equal size. A message belongs to one fragment; so does a parameter that travels
  /// in several.
  void divide() {
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

  bool ends_round(std::size_t fragment) const {
    const std::int64_t ahead = static_cast<std::int64_t>(fragment) * rules_.every / rules_.fragments;
    return (context_.step - began_ + ahead) % rules_.every == 0;
  }

  /// Of this worker's d in what it is summed up with.
  double weight_of_change(std::size_t fragment) const {
    const std::vector<std::int64_t>& samples = seen_[fragment].since_sent;
    if (!rules_.pairs) return weight_among(samples, engine_.rank());
    const auto other = partner_of(engine_.rank(), engine_.size(), seed_, context_.step);
    const auto of = [&](int worker) { return samples[static_cast<std::size_t>(worker)]; };
    return other ? weight_among(std::array{of(engine_.rank()), of(*other)}, 0) : 1;
  }

  /// The layers that the next forward needs first are sent first.
  void send(std::size_t fragment) {
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
  void outer_step(const Parameter& p, Rows rows, double scale) {
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

  void take_over(const Parameter& p, Rows rows) {
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

  const RoundsRules rules_;
  const ParameterArena& arena_;
  Engine& engine_;
  const std::uint64_t seed_;
  const ParameterArena outer_;                  // x, and in the place of gradients d
  const Tensor velocity_;                       // v; undefined without momentum
  std::optional<AllreduceSync> dense_;          // the exchange of dense steps, if there are any
  const std::unique_ptr<BucketSync> exchange_;  // of d; its update is the outer step
  NoSync own_;                                  // the workers' own updates
  NoSync arriving_;                             // sent, and not taken over yet
  JointModel joint_;
  std::vector<std::size_t> fragments_;  // by place in the arena
  std::vector<std::int64_t> due_;       // by fragment: after this step it is taken over; 0: never sent
  /// Samples by worker. All know all of them.
  struct Seen {
    std::vector<std::int64_t> since_sent, since_equal;
  };
  std::vector<Seen> seen_;  // by fragment
  StepContext context_;
  bool learned_ = false;   // gradients have come in this step: it is not passed over
  std::int64_t done_ = 0;  // the last step that has ended
  /// The step after which rounds began; -1: not yet. Other workers have other steps an epoch, but rounds go on where
  /// they were.
  std::int64_t began_ = -1;
};

}  // namespace

std::unique_ptr<Strategy> make_rounds_worker(WorkerSide side, const RoundsRules& rules) {
  return std::make_unique<RoundsSync>(std::move(side), rules);
}

}  // namespace laconic::dist
