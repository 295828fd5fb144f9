#include "dist/method/powersgd/powersgd.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>
#include <utility>

#include "core/base/clock.h"
#include "core/base/trace.h"
#include "dist/collective/pieces.h"
#include "dist/collective/ring_allreduce.h"
#include "dist/cuda/nccl.h"

namespace laconic::dist {
namespace {

const std::string kState = "powersgd/";

}  // namespace

PowerSgd::PowerSgd(WorkerSide side, Warmup warmup)
    : side_(std::move(side)),
      arena_(side_.arena),
      engine_(side_.engine),
      warmup_(warmup),
      dense_(arena_, engine_, side_.plan, side_.update, side_.facts),
      errors_(arena_.make_state()),
      matrices_(arena_.parameters().size()) {
  const Plan& plan = dense_.plan();
  int count = 0;
  for (const auto& p : arena_.parameters()) {
    const auto place = static_cast<std::size_t>(p->info.index);
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(plan.bucket_of[place])];
    if (!bucket.sparse()) continue;
    auto& matrix = matrices_[place];
    matrix = std::make_unique<Matrix>(*p, bucket.choice.rank, errors_, side_.facts);
    matrix->wire = bucket;
    matrix->by_nccl = dense_.nccl() != nullptr && bucket.carrier() == Carrier::nccl;
    ++count;
  }
  if (count == 0) return;
  int slot = engine_.reserve_slots(count);
  if (engine_.size() > 1 && plan.has(Carrier::mpi))
    engine_.run("preparing MPI's allreduce", [&](Communicator& comm) { return prepare_native(comm, slot, count); });
  for_matrices([&](Matrix& m) { m.slot = slot++; });
}

PowerSgd::~PowerSgd() {
  for_matrices([&](const Matrix& m) {
    if (m.phase == Matrix::Phase::sums_p || m.phase == Matrix::Phase::sums_q) engine_.halt();
  });
}

void PowerSgd::begin_step(const StepContext& context) {
  context_ = context;
  context_.gradient_scale = side_.facts.mean ? 1.0 / engine_.size() : 1.0;
  const bool dense = warmup_.dense_in_step(context.step + side_.facts.steps_ahead, side_.facts.steps_per_epoch);
  if (dense != dense_phase_) flush();
  dense_phase_ = dense;
  dense_.begin_step(context);
  for (const Bucket& b : dense_.plan().buckets)
    if (dense || !b.sparse())
      dense_bytes_ += ring_allreduce_cost(engine_.size(), static_cast<double>(b.elements) * 4).bytes;
}

void PowerSgd::gradient_ready(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::backward, p.info.name);
  fit_what_has_come();
  Matrix* const m = matrix_of(p);
  if (m == nullptr || dense_phase_) return dense_.gradient_ready(p, rows);
  require<Error>(m->phase == Matrix::Phase::idle || m->phase == Matrix::Phase::gathering, "powersgd: the gradient of ",
                 p.info.name, " is ready again before its last update was applied. Run its forward, or flush, first.");
  const auto begin = Clock::now();
  m->phase = Matrix::Phase::gathering;
  m->context = context_;
  m->low_rank.gather(rows);
  if (m->low_rank.complete()) project(*m);
  costs_.select_seconds += seconds_since(begin);
  if (m->phase == Matrix::Phase::projected && side_.facts.overlap != Overlap::none) hand_over(*m);
}

void PowerSgd::project(Matrix& m) {
  const Trace::Span span(m.parameter.info.name, "project");
  if (side_.watch) side_.watch(m.parameter, m.low_rank.matrix().slice());
  m.account.before(m.context.step, m.low_rank.matrix());
  m.low_rank.project(m.context.step);
  m.phase = Matrix::Phase::projected;
}

void PowerSgd::hand_over(Matrix& m) {
  if (!m.by_nccl) return sum(m, Matrix::Phase::sums_p);
  dense_.in_turn_of(m.parameter, [this, &m] { sum(m, Matrix::Phase::sums_p); });
}

/// Hands over P or Q.
void PowerSgd::sum(Matrix& m, Matrix::Phase phase) {
  const bool first = phase == Matrix::Phase::sums_p;
  const Slice<float> x = first ? m.low_rank.p() : m.low_rank.q();
  m.phase = phase;
  m.wire.pieces = pieces_of(x.size_bytes(), engine_.size());
  Operation operation{.name = concat("sum of ", first ? "P of " : "Q of ", m.parameter.info.name),
                      .slot = m.slot,
                      .priority = m.wire.priority,
                      .device = errors_.device(),
                      .in_order = m.by_nccl};
  operation.body = [this, &m, x, first](Communicator& comm) -> Task<> {
    const Hops plain;
    if (m.by_nccl)
      dense_.nccl()->allreduce(x);
    else
      co_await allreduce(comm, x, m.wire, plain);
    if (first) m.come.store(true, std::memory_order_release);
  };
  m.ticket = engine_.submit(std::move(operation));
}

void PowerSgd::sum_projected() {
  for_matrices([&](Matrix& m) {
    if (m.phase == Matrix::Phase::projected) sum(m, Matrix::Phase::sums_p);
  });
}

/// Waits for P.
void PowerSgd::fit(Matrix& m) {
  engine_.wait(std::exchange(m.ticket, {}));
  m.come.store(false, std::memory_order_relaxed);
  const auto begin = Clock::now();
  {
    const Trace::Span span(m.parameter.info.name, "fit");
    m.low_rank.fit();
  }
  costs_.select_seconds += seconds_since(begin);
  sum(m, Matrix::Phase::sums_q);
}

/// NCCL takes all that ranks ask for in one order: there it is done when backward has ended.
void PowerSgd::fit_what_has_come() {
  for (const auto& m : matrices_)
    if (m && m->phase == Matrix::Phase::sums_p && !m->by_nccl && m->come.load(std::memory_order_acquire)) fit(*m);
}

void PowerSgd::before_forward(Parameter& p, Rows rows) {
  engine_.at(Engine::Phase::forward, p.info.name);
  Matrix* const m = matrix_of(p);
  if (m != nullptr && m->phase == Matrix::Phase::projected) sum_projected();
  if (m != nullptr && m->phase == Matrix::Phase::sums_p) fit(*m);
  fit_what_has_come();
  if (m == nullptr || m->phase == Matrix::Phase::idle) return dense_.before_forward(p, rows);
  if (m->phase == Matrix::Phase::sums_q) apply(*m);
}

/// Waits for Q.
void PowerSgd::apply(Matrix& m) {
  engine_.wait(std::exchange(m.ticket, {}));
  m.phase = Matrix::Phase::idle;
  const auto begin = Clock::now();
  const Trace::Span span(m.parameter.info.name, "update");
  m.low_rank.approximate(1.0f / static_cast<float>(engine_.size()));
  m.account.after(m.low_rank.matrix());
  side_.update(m.parameter, m.parameter.all_rows(), m.context);
  costs_.update_seconds += seconds_since(begin);
}

void PowerSgd::end_step() {
  if (side_.facts.overlap != Overlap::forward) return flush();
  for_matrices([&](Matrix& m) {
    if (m.by_nccl && m.phase == Matrix::Phase::sums_p) fit(m);
  });
  fit_what_has_come();
  dense_.end_step();
}

void PowerSgd::flush() {
  sum_projected();
  for_matrices([&](Matrix& m) {
    if (m.phase == Matrix::Phase::sums_p) fit(m);
  });
  if (side_.facts.overlap != Overlap::forward)
    for_matrices([&](const Matrix& m) {
      if (m.phase == Matrix::Phase::sums_q) engine_.wait(m.ticket);
    });
  for_matrices([&](Matrix& m) {
    if (m.phase == Matrix::Phase::sums_q) apply(m);
  });
  dense_.flush();
}

Costs PowerSgd::costs() const {
  Costs costs = dense_.costs();
  costs.select_seconds += costs_.select_seconds, costs.update_seconds += costs_.update_seconds;
  return costs;
}

/// P and Q, what comes of them, and the matrices that they stand for: one at a time, but the allocator keeps blocks of
/// each size.
double PowerSgd::message_bytes() const {
  double bytes = dense_.message_bytes([](const Bucket& b) { return !b.sparse(); });
  std::set<std::size_t> sizes;
  for_matrices([&](const Matrix& m) {
    const Tensor& matrix = m.low_rank.matrix();
    const std::int64_t rank = m.low_rank.rank();
    const auto longer = static_cast<std::size_t>(rank * std::max(matrix.dim(0), matrix.dim(1)));
    bytes += static_cast<double>(sizeof(float)) * static_cast<double>(rank * matrix.dim(0));
    bytes += static_cast<double>(allreduce_room(m.wire.allreduce, engine_.size(), longer, m.wire.pieces));
    if (sizes.insert(matrix.bytes()).second) bytes += static_cast<double>(matrix.bytes());
  });
  return warmup_.kind == Warmup::Kind::none ? bytes : std::max(bytes, dense_.message_bytes());
}

std::vector<LedgerRow> PowerSgd::ledger() const {
  std::vector<LedgerRow> rows;
  if (side_.facts.ledger_every == 0) return rows;
  LedgerRow others{.parameter = "(others)", .choice = "all"};
  for_matrices([&](const Matrix& m) {
    const Tensor& matrix = m.low_rank.matrix();
    const auto sent = static_cast<double>(m.low_rank.rank() * (matrix.dim(0) + matrix.dim(1)));
    m.account.add_row(rows, sent, ring_allreduce_cost(engine_.size(), sent * 4).bytes);
  });
  for (const auto& p : arena_.parameters())
    if (matrix_of(*p) == nullptr) others.elements += p->info.elements;
  others.bytes = dense_bytes_;
  rows.push_back(others);
  return rows;
}

void PowerSgd::save(RankState& state) const {
  state.set(kState + "errors", errors_, side_.facts.put_by());
  for_matrices([&](const Matrix& m) {
    const std::string name = kState + m.parameter.info.name + "/";
    state.save(name, m.low_rank, Join::equal);
    state.save(name, m.account, Join::own);
  });
  if (side_.facts.ledger_every > 0)
    state.set_numbers(kState + "dense_bytes", std::array{std::bit_cast<std::int64_t>(dense_bytes_)}, Join::own);
}

void PowerSgd::load(const StateDict& state) {
  const StateDict mine = state.part(kState);
  mine.copy_to(errors_, "errors", "what powersgd has left");
  for_matrices([&](Matrix& m) {
    const StateDict part = mine.part(m.parameter.info.name + "/");
    m.low_rank.load(part);
    m.account.load(part);
  });
  if (side_.facts.ledger_every > 0 && mine.contains("dense_bytes"))
    dense_bytes_ = std::bit_cast<double>(mine.numbers("dense_bytes", 1, "the ledger of powersgd")[0]);
}

}  // namespace laconic::dist
