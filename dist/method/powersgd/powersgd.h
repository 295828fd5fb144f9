#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "dist/method/allreduce/allreduce_sync.h"
#include "dist/method/ledger_account.h"
#include "dist/method/powersgd/low_rank.h"
#include "dist/method/warmup.h"

namespace laconic::dist {

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
class PowerSgd final : public Strategy {
 public:
  /// side.plan : parameters with a choice are matrices of that rank
  PowerSgd(WorkerSide side, Warmup warmup);
  ~PowerSgd() override;

  void begin_step(const StepContext& context) override;
  void gradient_ready(Parameter& parameter, Rows rows) override;
  void before_forward(Parameter& parameter, Rows rows) override;
  void end_step() override;
  void flush() override;
  Costs costs() const override;
  double message_bytes() const override;
  std::vector<LedgerRow> ledger() const override;

  /// "powersgd/errors", and Q and the ledger of every matrix.
  void save(RankState& state) const override;
  /// throws DataError if that is of another model or rank
  void load(const StateDict& state) override;

  /// E, laid out like the arena; between steps.
  const Tensor& errors() const { return errors_; }

 private:
  struct Matrix {  // a parameter of which P and Q travel
    enum class Phase : std::uint8_t { idle, gathering, projected, sums_p, sums_q };
    Matrix(Parameter& p, int rank, const Tensor& errors, const TrainingFacts& facts)
        : parameter(p),
          low_rank(p, rank, errors, facts.seed),
          account(p.info.name, to_string({.rank = rank}), p.info.elements, facts.ledger_every) {}
    Parameter& parameter;
    LowRank low_rank;
    Phase phase = Phase::idle;
    StepContext context;
    Bucket wire;  // says how P and Q travel
    int slot = 0;
    bool by_nccl = false;
    Ticket ticket;
    std::atomic<bool> come = false;  // P has
    EnergyAccount account;
  };

  Matrix* matrix_of(const Parameter& p) const { return matrices_[static_cast<std::size_t>(p.info.index)].get(); }
  void project(Matrix& matrix);
  void hand_over(Matrix& matrix);
  void sum(Matrix& matrix, Matrix::Phase phase);
  void sum_projected();
  void fit(Matrix& matrix);
  void fit_what_has_come();
  void apply(Matrix& matrix);
  template <class F>
  void for_matrices(F f) const {  // as forward reaches them
    for (std::size_t i = matrices_.size(); i-- > 0;)
      if (matrices_[i]) f(*matrices_[i]);
  }

  const WorkerSide side_;
  const ParameterArena& arena_;
  Engine& engine_;
  const Warmup warmup_;
  AllreduceSync dense_;
  Tensor errors_;
  std::vector<std::unique_ptr<Matrix>> matrices_;  // by place in the arena; null: travels densely
  StepContext context_;
  bool dense_phase_ = true;  // this step; before the first: nothing is under way
  Costs costs_;
  double dense_bytes_ = 0;  // for the ledger: those of parameters that travelled whole
};

}  // namespace laconic::dist
