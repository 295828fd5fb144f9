#pragma once
#include <cstdint>
#include <memory>

#include "compress/select/residual.h"
#include "compress/select/selector.h"
#include "dist/method/carry.h"
#include "dist/method/redsync/method.h"

namespace laconic::dist {

/// One parameter's residual on one rank: gathers gradients, and chooses what is sent.
///
///     G += decay w;   U = m U + G;   V += U   (Nesterov: m U + G)      gather, row by row
///     S = select(V, k);   what is sent of V[S];   V[S] = 0, U[S] = 0   choose
///
/// source  RedSync Algorithm 4 (momentum correction, factor masking; settled: its Nesterov runs both lines)
class ResidualTensor {
 public:
  /// velocity (undefined without momentum) and residual: laid out like the arena; this parameter's part is used.
  /// facts : the seed of a selector that draws, and the network's rate.   `options` outlive it.
  /// throws UsageError for 2^32 elements or more
  ResidualTensor(const Parameter& parameter, Choice choice, const SparseOptions& options, const TrainingFacts& facts,
                 const compress::MomentumRule& rule, const Tensor& velocity, const Tensor& residual);

  void begin(double density);  ///< is called before the first rows of a step
  /// One pass over these rows: parameter.grad() times `factor`.
  void gather(Rows rows, float factor);
  bool complete() const { return gathered_ == n_; }  ///< all rows have come
  /// Chooses and takes away what is sent. `step`: of a selector that draws.   throws Error naming the parameter if
  /// there is a NaN
  Steps choose(std::int64_t step);
  /// On a CUDA device if the residual is, else in host memory.
  Chosen chosen();

  const compress::SelectorTraits& traits() const { return selector_->traits(); }
  const SparseWire& wire() const { return wire_; }
  std::size_t elements() const { return static_cast<std::size_t>(n_); }
  Slice<const std::uint32_t> indices() const { return chosen_.all_indices(); }
  Slice<const float> values() const;
  /// No rank chooses more of k, or at this density.
  std::size_t most(std::size_t k) const;
  std::size_t most_at(double density) const { return most(k_of(density)); }
  /// Bytes of memory for choosing at this density.
  double choosing_bytes(double density) const;

  const Tensor& residual() const { return residual_; }  ///< V
  const Tensor& velocity() const { return velocity_; }  ///< U; undefined without momentum

  /// Turn of signs and what the selector remembers.
  void save(RankState& state) const;
  void load(const StateDict& state);

 private:
  std::size_t k_of(double density) const { return static_cast<std::size_t>(elements_to_send(n_, density)); }
  bool sends_mean() const { return wire_.format.one_value && !wire_.both_signs; }
  compress::Sign sign() const;

  const Parameter& parameter_;
  const SparseOptions& options_;
  const std::uint64_t seed_;
  const compress::MomentumRule rule_;
  const std::int64_t n_;
  Tensor velocity_, residual_;  // this parameter's
  std::unique_ptr<compress::Selector> selector_;
  const SparseWire wire_;
  compress::Candidates candidates_;
  compress::StatsSum stats_;
  compress::Selection chosen_;
  std::size_t k_ = 0;
  std::int64_t gathered_ = 0;  // elements of this step
  std::int64_t turn_ = 0;      // selections so far: decides the sign
  Tensor mean_;                // a single value, where the chosen are
};

}  // namespace laconic::dist
