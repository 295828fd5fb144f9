#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/choose/candidates.h"
#include "compress/choose/residual.h"
#include "compress/choose/selector.h"
#include "compress/sparse_message.h"
#include "dist/method/rank_state.h"
#include "dist/method/redsync/method.h"

namespace laconic::dist {

/// How chosen elements of one tensor become what one rank sends: a sparse message; or, where all have one magnitude and
/// either sign (Strom), two of them, each with one value:
///
///     little-endian   bytes : u32 | message of the values above 0, so many bytes | message of the others
struct SparseWire {
  compress::SparseFormat format{};
  bool both_signs = false;  ///< two messages; their format has one value

  /// No payload of at most `count` elements of n is longer; a multiple of 4.
  std::size_t max_bytes(std::size_t count, std::size_t n) const;
  /// Appends. values : one for each index; with format.one_value alone the one that stands for all
  void encode(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t n,
              compress::Bytes& payload) const;
  /// Reads a payload of a tensor of n elements into views[next] and on; what is next then.
  /// throws DataError if it is none; nothing is read outside of it
  std::size_t read(Slice<const std::byte> payload, std::size_t n, std::vector<compress::SparseView>& views,
                   std::size_t next) const;
};

/// One parameter's residual on one rank: gathers gradients, and chooses what is sent.
///
///     G += decay w;   U = m U + G;   V += U   (Nesterov: m U + G)      gather, row by row
///     S = select(V, k);   what is sent of V[S];   V[S] = 0, U[S] = 0   choose
///
/// source  RedSync Algorithm 4 (momentum correction, factor masking; settled: its Nesterov runs both lines)
class ResidualTensor {
 public:
  /// velocity (undefined without momentum) and residual: laid out like the arena; this parameter's part is used.
  /// seed : of a selector that draws.   `options` outlive it.   throws UsageError for 2^32 elements or more
  ResidualTensor(const Parameter& parameter, Choice choice, const SparseOptions& options, std::uint64_t seed,
                 const compress::MomentumRule& rule, const Tensor& velocity, const Tensor& residual);

  /// Before the first rows of a step.
  void begin(double density);
  /// One pass over these rows: parameter.grad() times `factor`.
  void gather(Rows rows, float factor);
  bool complete() const { return gathered_ == n_; }  ///< all rows have come

  /// Chooses and takes away what is sent. `step`: of a selector that draws.   throws Error naming the parameter if
  /// there is a NaN
  Steps choose(std::int64_t step);

  /// Indices that were chosen, ascending, and the values that are sent, both on a CUDA device if the residual is, else
  /// in host memory: one for each, or with wire().format.one_value alone the one that stands for all.
  Slice<const std::uint32_t> indices() const { return chosen_.all_indices(); }
  Slice<const float> values() const;
  /// Where all ranks choose the same places: to be summed over ranks in place.
  Slice<float> shared_values() {
    return residual_.device() == kGhost ? residual().first(chosen_.size()) : chosen_.all_values();
  }

  const compress::SelectorTraits& traits() const { return selector_->traits(); }
  const SparseWire& wire() const { return wire_; }
  std::size_t elements() const { return static_cast<std::size_t>(n_); }
  std::size_t k() const { return k_; }
  /// No rank chooses more in this step; the same on all.
  std::size_t most() const { return most_of(k_); }
  /// Bytes of memory for choosing at this density, and of the longest message that one rank sends.
  double choosing_bytes(double density) const;
  std::size_t most_message_bytes(double density) const {
    return wire_.max_bytes(most_of(static_cast<std::size_t>(elements_to_send(n_, density))), elements());
  }

  Slice<float> residual() const { return residual_.slice(); }
  Slice<float> velocity() const { return velocity_.defined() ? velocity_.slice() : Slice<float>(); }

  /// Turn of signs and what the selector remembers.
  void save(RankState& state) const;
  void load(const StateDict& state);

 private:
  std::size_t most_of(std::size_t k) const;

  const Parameter& parameter_;
  const Choice choice_;
  const SparseOptions& options_;
  const std::uint64_t seed_;
  const compress::MomentumRule rule_;
  const std::int64_t n_;
  Tensor velocity_, residual_;  // this parameter's
  SparseWire wire_;
  std::unique_ptr<compress::Selector> selector_;
  compress::Candidates candidates_;
  compress::StatsSum stats_;
  compress::Selection chosen_;
  std::size_t k_ = 0;
  std::int64_t gathered_ = 0;  // elements of this step
  std::int64_t turn_ = 0;      // selections so far: decides the sign
  Tensor one_value_;           // a single one, where the chosen are
};

}  // namespace laconic::dist
