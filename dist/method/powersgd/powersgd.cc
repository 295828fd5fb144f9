#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <set>
#include <utility>

#include "compress/low_rank.h"
#include "core/base/clock.h"
#include "core/base/trace.h"
#include "dist/collective/pieces.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/method/layer_sync.h"
#include "dist/method/warmup.h"

namespace laconic::dist {
namespace {

/// Low-rank gradient compression with error feedback. Instead of a matrix two thin ones travel, P and then Q, whose
/// product comes near the sum of all gradients and errors; what it leaves out is every worker's error, and goes with
/// the next gradient (LowRank). The plan says for which parameters; all others travel densely, as AllreduceSync sends
/// them.
///
///     when the gradient is ready          M = G + E, P = M Q; P is handed over
///     when P has come                     Q = M' P, with P orthonormal; Q is handed over
///     before the parameter's next forward G = P Q', E = M - G / N, and the ordinary update, momentum included
///
/// The compute thread makes products: it looks whether a P has come whenever a gradient is ready or a layer begins, so
/// that both sums travel while other layers compute. When it looks changes no bit. Both go by the allreduce that the
/// plan has for the parameter.
///
/// Errors of all workers and what was applied add up to what was gathered: nothing is lost. In a dense phase (warm-up)
/// all of every gradient travels, and errors are zero.
/// After a flush all ranks hold the same bits, if they began with the same, whatever the overlap.
///
/// source  PowerSGD (Vogels et al. 2019), Algorithms 1 and 2; settled: as PyTorch's hook has it, momentum is the
///         optimiser's, after decompression, and the error is counted from the mean of all, not from a worker's own
///         approximation. Both conserve the sum
/// throws  CommError as AllreduceSync
class PowerSgd final : public LayerSync {
 public:
  /// side.plan : parameters with a choice are matrices of that rank
  PowerSgd(WorkerSide side, Warmup warmup)
      : LayerSync(std::move(side), "powersgd", "errors", "what powersgd has left"), warmup_(warmup) {
    make_layers([&](Parameter& p, const Bucket& bucket) {
      return std::make_unique<Matrix>(p, bucket, kept_, side_.facts, side_.engine.size());
    });
  }
  ~PowerSgd() override { halt_what_is_under_way(); }

  void gradient_ready(Parameter& p, Rows rows) override {
    side_.engine.at(Engine::Phase::backward, p.info.name);
    fit_what_has_come();
    Matrix* const m = layer_as<Matrix>(p);
    if (m == nullptr || dense_phase_) return AllreduceSync::gradient_ready(p, rows);
    const auto begin = Clock::now();
    begin_gathering(*m);
    m->low_rank.gather(rows);
    GhostWork::tell(kept_.device(), Work::gathering, static_cast<std::size_t>(p.info.part(rows).count));
    if (m->low_rank.complete()) project(*m);
    select_seconds_ += seconds_since(begin);
    if (m->phase == Phase::complete) hand_over_layer(*m);
  }

  void before_forward(Parameter& p, Rows rows) override {
    side_.engine.at(Engine::Phase::forward, p.info.name);
    Matrix* const m = layer_as<Matrix>(p);
    if (m != nullptr && m->phase == Phase::complete) LayerSync::send_all();
    if (m != nullptr && m->sums_p()) fit(*m);
    fit_what_has_come();
    if (m == nullptr || m->phase == Phase::idle) return AllreduceSync::before_forward(p, rows);
    if (m->phase == Phase::under_way) apply(*m);
  }

  void end_step() override {
    if (side_.facts.overlap != Overlap::forward) return flush();
    for_layers<Matrix>([&](Matrix& m) {
      if (m.sums_p() && m.by_nccl) fit(m);
    });
    fit_what_has_come();
  }

  /// P and Q, what comes of them, and the matrices that they stand for: one at a time, but the allocator keeps blocks
  /// of each size.
  double message_bytes() const override {
    double bytes = AllreduceSync::message_bytes([](const Bucket& b) { return !b.sparse(); });
    std::set<std::size_t> sizes;
    for_layers<Matrix>([&](const Matrix& m) {
      const Tensor& matrix = m.low_rank.matrix();
      const std::int64_t rank = m.low_rank.rank();
      const auto longer = static_cast<std::size_t>(rank * std::max(matrix.dim(0), matrix.dim(1)));
      bytes += static_cast<double>(sizeof(float)) * static_cast<double>(rank * matrix.dim(0));
      bytes += static_cast<double>(allreduce_room(m.wire.allreduce, side_.engine.size(), longer, m.wire.pieces));
      if (sizes.insert(matrix.bytes()).second) bytes += static_cast<double>(matrix.bytes());
    });
    return warmup_.kind == Warmup::Kind::none ? bytes : std::max(bytes, AllreduceSync::message_bytes());
  }

 private:
  struct Matrix final : LayerExchange {  // a parameter of which P and Q travel
    Matrix(Parameter& p, const Bucket& bucket, const Tensor& errors, const TrainingFacts& facts, int N)
        : LayerExchange(p, bucket, facts.ledger_every, LedgerAccount::Of::squares),
          low_rank(p, bucket.choice.rank, errors, facts.seed),
          wire(bucket),
          workers(N) {}
    compress::LowRank low_rank;
    Bucket wire;  // says how P and Q travel
    const int workers;
    bool sums_q = false;             // Q is under way, else P
    std::atomic<bool> come = false;  // P has

    bool sums_p() const { return phase == LayerExchange::Phase::under_way && !sums_q; }
    LedgerRow ledger_row() const override {
      const auto sent = static_cast<double>(low_rank.rank() * (low_rank.matrix().dim(0) + low_rank.matrix().dim(1)));
      return account.row(sent, ring_allreduce_cost(workers, sent * 4).bytes);
    }
    void keep_in(StateTable& table, const std::string& prefix) override { table.object(prefix, low_rank, Join::equal); }
  };

  bool is_dense(std::int64_t step) override {
    return warmup_.dense_in_step(step + side_.facts.steps_ahead, side_.facts.steps_per_epoch);
  }

  void project(Matrix& m) {
    const Trace::Span span(m.parameter.info.name, "project");
    if (side_.watch) side_.watch(m.parameter, m.low_rank.matrix().slice());
    m.account.before(m.context.step, m.low_rank.matrix());
    m.low_rank.project(m.context.step);
    m.phase = Phase::complete;
  }

  /// Hands over P, or Q.
  void sum(Matrix& m, bool q) {
    const Slice<float> x = q ? m.low_rank.q() : m.low_rank.p();
    m.sums_q = q;
    m.wire.pieces = pieces_of(x.size_bytes(), side_.engine.size());
    std::function<Task<>(Communicator&)> body = [this, &m, x](Communicator& comm) {
      return AllreduceSync::sum(comm, x, m.wire);
    };
    if (!m.by_nccl && !q)  // NCCL's operations give way to no other: the sum is the operation itself
      body = [this, &m, x](Communicator& comm) -> Task<> {
        co_await AllreduceSync::sum(comm, x, m.wire);
        m.come.store(true, std::memory_order_release);
      };
    submit(m, concat("sum of ", q ? "Q of " : "P of ", m.parameter.info.name), std::move(body));
  }

  void send(LayerExchange& layer) override { sum(static_cast<Matrix&>(layer), false); }

  /// Waits for P.
  void fit(Matrix& m) {
    finish(m);
    m.come.store(false, std::memory_order_relaxed);
    {
      const Doing fitting(m.parameter.info.name, "fit", select_seconds_);
      m.low_rank.fit();
      GhostWork::tell(kept_.device(), Work::selecting, static_cast<std::size_t>(m.parameter.info.elements));
    }
    sum(m, true);
  }

  /// NCCL takes all that ranks ask for in one order: there it is done when backward has ended.
  void fit_what_has_come() {
    for (const auto& p : side_.arena.parameters())
      if (Matrix* m = layer_as<Matrix>(*p);
          m != nullptr && m->sums_p() && !m->by_nccl && m->come.load(std::memory_order_acquire))
        fit(*m);
  }

  void send_all() override {
    LayerSync::send_all();
    for_layers<Matrix>([&](Matrix& m) {
      if (m.sums_p()) fit(m);
    });
  }

  /// Waits for Q.
  void apply(LayerExchange& layer) override {
    auto& m = static_cast<Matrix&>(layer);
    finish(m);
    const Doing update(m.parameter.info.name, "update", update_seconds_);
    m.low_rank.approximate(1.0f / static_cast<float>(side_.engine.size()));
    GhostWork::tell(kept_.device(), Work::scattering, static_cast<std::size_t>(m.parameter.info.elements));
    m.account.after(m.low_rank.matrix());
    side_.update(m.parameter, m.parameter.all_rows(), m.context);
  }

  const Warmup warmup_;
};

class PowerSgdMethod final : public Method {
 public:
  std::string name() const override { return "powersgd"; }
  std::string summary() const override { return "matrices of low rank (Vogels et al. 2019)"; }
  Traits traits() const override { return {.chooses = true, .on_ghosts = true, .keeps = "errors"}; }

  void settings(Settings& s) override {
    s.group("Low rank (`sync` powersgd)", Scope::exchange);
    s.whole_number<int>("rank", "R", rank_, 1,
                        "columns of the two matrices that stand for one; what would\nnot save half travels whole");
    s.value(
        "warmup", "none|dense:E", "in the first E epochs dense gradients [none]",
        [this](const std::string& text, const std::string& where) {
          warmup_ = Warmup::parse(text, where);
          if (warmup_.kind == Warmup::Kind::ramp)
            refuse("powersgd has no density to begin with", where, "give dense:E, as dense:1");
        },
        [this] { return warmup_.to_string(); });
  }

  void shape(PlanOptions& plan, const TrainingFacts&) const override {
    plan.sparse = {.kind = Dispatch::Kind::low_rank, .rank = rank_};
  }

  std::unique_ptr<Strategy> worker(WorkerSide side) const override {
    require_choices(side.plan, [](const Choice& choice) { return choice.selector.empty(); });
    return std::make_unique<PowerSgd>(std::move(side), warmup_);
  }

  /// Counts what follows a warm-up.
  std::optional<double> expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                                       const TrainingFacts& facts) const override {
    const int N = facts.workers;
    if (N == 1) return 0;
    double bytes = 0;
    for (const Bucket& b : plan.buckets) {
      if (b.sparse() && b.rows.first > 0) continue;  // a chunk of what was counted
      const auto [n, m] = matrix_size(parameters[static_cast<std::size_t>(b.first)]->info.shape);
      for (const std::int64_t count :
           b.sparse() ? std::vector{b.choice.rank * n, b.choice.rank * m} : std::vector{b.elements}) {
        const std::optional<Cost> cost = allreduce_cost(b.allreduce, N, 4 * static_cast<double>(count), b.pieces);
        if (!cost) return std::nullopt;
        bytes += cost->all_bytes / N;
      }
    }
    return bytes;
  }

  LedgerForm ledger() const override {
    return LedgerAccount::of_squares(
        "sent: numbers a step, of both matrices; bytes: that rank 0 sent, as in a ring; held: share of the squares "
        "of gradient and\nerror that rank 0 keeps as its next error");
  }

  std::string describe(const TrainingFacts&) const override { return fmt::format("powersgd, rank {}", rank_); }

 private:
  int rank_ = 2;
  Warmup warmup_{};
};

}  // namespace

std::unique_ptr<Method> make_power_sgd() { return std::make_unique<PowerSgdMethod>(); }

}  // namespace laconic::dist
