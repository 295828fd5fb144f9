#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>

#include "compress/choose/candidates.h"
#include "compress/choose/selection.h"
#include "core/memory.h"
#include "core/slice.h"

namespace laconic::compress {

/// What a worker does to its gradient before compressing it: as optim's Sgd does, without dampening.
struct MomentumRule {
  float momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

/// What selection asks about a residual V. Those of the parts of a tensor add up to those of the tensor.
struct ResidualStats {
  std::uint64_t elements = 0;
  double sum_positive = 0;                   ///< of the values above 0
  double sum_negative = 0;                   ///< of -x over the values x below 0
  float max_positive = 0, max_negative = 0;  ///< the largest x, and the largest -x; 0 if there is none
  bool nan = false;                          ///< there was one; the other figures leave it out, or not

  /// The mean of |x|, of max(x, 0), or of max(-x, 0), over all elements.
  constexpr double mean(Sign sign) const {
    if (elements == 0) return 0;
    const double sum = sign == Sign::any        ? sum_positive + sum_negative
                       : sign == Sign::positive ? sum_positive
                                                : sum_negative;
    return sum / static_cast<double>(elements);
  }
  constexpr float max(Sign sign) const {
    if (sign != Sign::any) return sign == Sign::positive ? max_positive : max_negative;
    return max_positive > max_negative ? max_positive : max_negative;
  }
  constexpr ResidualStats& operator+=(const ResidualStats& other) {
    elements += other.elements;
    sum_positive += other.sum_positive, sum_negative += other.sum_negative;
    max_positive = std::max(max_positive, other.max_positive);
    max_negative = std::max(max_negative, other.max_negative);
    nan = nan || other.nan;
    return *this;
  }
};

/// Statistics of the parts of a tensor as they come, where the tensor lies: on a CUDA device they are added up there,
/// and the host waits for them only when it asks.
class StatsSum {
 public:
  void clear();
  /// throws what waiting for the device throws
  const ResidualStats& get();
  /// What stands in the device's memory; null if nothing does.
  const ResidualStats* on_device() const { return pending_ ? there() : nullptr; }

  /// For accumulate_residual: of one more part. On a device it is to be added to what is returned.
  void add(const ResidualStats& part) { host_ += part; }
  ResidualStats* add_on_device(Device device);

 private:
  ResidualStats* there() const { return reinterpret_cast<ResidualStats*>(there_->data()); }

  ResidualStats host_;
  std::unique_ptr<Storage> there_;
  bool pending_ = false;  // host_ lacks what stands there
};

/// Some neighbouring elements of one tensor, all of one length on one device.
struct ResidualPart {
  Slice<const float> gradient;
  Slice<const float> weight;  ///< may be empty without weight decay
  Slice<float> velocity;      ///< U; empty: no momentum, V += G
  Slice<float> residual;      ///< V
  std::uint32_t first = 0;    ///< index in the tensor of the first of them
};

/// One pass over a part of a tensor, in any order of parts:
///
///     g = gradient_factor gradient + weight_decay weight
///     U = momentum U + g                        (no U: V += g, and momentum must be 0)
///     V = V + U,   Nesterov: V + momentum U + g
///
/// and what selection needs to know about the new V, for nothing. `candidates`, if active, gets what stands in V above
/// its floor. Element-wise, so U and V depend on no cutting into parts; the sums do in their last bits, but not on the
/// number of threads, and not on the device.
/// source: RedSync Algorithm 4 (settled: printed Nesterov runs both lines and gives momentum U + 2g)
/// cost    reads 3 (weight decay: 4) and writes 2 values per element, as dense momentum SGD does
/// throws  ShapeError if lengths or devices differ, or something is missing that the rule needs
void accumulate_residual(const ResidualPart& part, const MomentumRule& rule, float gradient_factor,
                         Candidates* candidates, StatsSum& stats);
/// Accumulates likewise, and returns the statistics of this part: for a CUDA device the host waits.
ResidualStats accumulate_residual(const ResidualPart& part, const MomentumRule& rule, float gradient_factor = 1.0f,
                                  Candidates* candidates = nullptr);

/// These figures about any values, in one pass that changes nothing. For a CUDA device the host waits.
ResidualStats residual_stats(Slice<const float> values);

/// After sending: V[S] = 0, and with `mask` U[S] = 0 (factor masking: the momentum of what was sent ends with it).
/// velocity may be empty. indices : ascending, on the residual's device; or in host memory, from where they are copied.
/// Cost: what lies at the indices, fetched ahead.
/// throws ShapeError if an index is outside; of indices on a CUDA device the next synchronize() throws DataError
void clear_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices, bool mask);

/// After sending other values than the residual had (Strom, AdaComp): V[S[j]] -= values[j] keeps what was left out.
/// A single value is that of all (--qrgc-feedback).
void subtract_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices,
                   Slice<const float> values, bool mask);

/// left = x - sent: what a codec has lost. A value that is no finite number leaves 0, for it would stay. left may be x
/// or sent.
void keep_left(Slice<float> left, Slice<const float> x, Slice<const float> sent);

/// *mean, one value on their device, becomes that of the values (0 of none), added up in double
/// (compress/ordered_sum.h): what quantised RGC sends for all of them.
void mean_of(Slice<const float> values, Slice<float> mean);

}  // namespace laconic::compress
