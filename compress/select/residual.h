#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "compress/bytes.h"
#include "compress/select/selection.h"
#include "core/memory.h"
#include "core/slice.h"

namespace laconic::compress {

/// What a worker does to its gradient before compressing it: as optim's Sgd does, without dampening.
struct MomentumRule {
  float momentum = 0, weight_decay = 0;
  bool nesterov = false;
};

/// What selection asks about a residual V. The figures of a tensor's parts add up to the tensor's.
struct ResidualStats {
  std::uint64_t elements = 0;
  double sum_positive = 0;                   ///< sum of the values above 0
  double sum_negative = 0;                   ///< sum of -x over the values x below 0
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

/// Elements of one tensor whose magnitude is at least a floor, as the residual pass meets them (accumulate_residual):
/// with some k of them known, choosing the k largest needs no look at the tensor. A Selector sets the floor
/// (Selector::prepare) and reads them; between the two the parts of the tensor come in any order, each once.
/// For a tensor on a CUDA device they stay on it, by tiles, and only its selector looks at them: count(), complete(),
/// indices() and values() speak of host memory.
class Candidates {
 public:
  bool active() const { return active_; }
  Sign sign() const { return sign_; }
  /// Nothing will be kept, and nothing is: where no good floor is known.
  void disable();
  /// From now on, of values that compete under `sign`, those whose magnitude is at least `floor` (>= 0; for one sign
  /// above 0 in any case). Beyond `most` they are counted but not kept.
  void begin(float floor, Sign sign, std::size_t most);

  /// Keeps no more than `most`.
  void limit(std::size_t most) { most_ = std::min(most_, most); }

  float floor() const { return floor_; }
  std::uint64_t elements() const { return elements_; }  ///< values that were looked at
  std::uint64_t count() const { return count_; }        ///< values at or above the floor
  /// All of them are kept.
  bool complete() const { return active_ && count_ == found_.size(); }

  /// Ascending by index. Cost: a sort of the parts if they did not come in order.
  Slice<const std::uint32_t> indices();
  Slice<const float> values();

  /// For accumulate_residual: one part of the tensor, from its element `first`, of which `count` are at or above the
  /// floor; the last `kept` of found() are they, ascending. kept is count, or 0 where there was no room.
  void note(std::uint32_t first, std::uint64_t elements, std::uint64_t count, std::size_t kept);
  Elements& found() { return found_; }
  std::vector<Elements>& scratch() { return scratch_; }  ///< memory of further threads
  std::size_t most() const { return most_; }

  /// On a CUDA device, what each tile of the parts that came had at or above the floor (compress/cuda/residual.h).
  struct Tiles {
    Bytes counts, slots;  ///< arrays, an element a tile (slots: kSlots)
    std::size_t tiles = 0;
    struct Part {
      std::uint32_t first;   ///< index in the tensor
      std::size_t elements;  ///< elements in tiles, all full but the last
      std::size_t begin;     ///< its first tile
    };
    std::vector<Part> parts;
  };
  Tiles& tiles() { return tiles_; }
  void note_tiles(std::uint64_t elements) { elements_ += elements; }

 private:
  struct Run {
    std::uint32_t first;  // the part's first index in the tensor
    std::size_t begin, end;
  };
  void order();

  bool active_ = false;
  Sign sign_ = Sign::any;
  float floor_ = 0;
  std::size_t most_ = 0;
  std::uint64_t elements_ = 0, count_ = 0;
  Elements found_;
  std::vector<Elements> scratch_;
  std::vector<Run> runs_;
  Tiles tiles_;
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
/// Does the same, and returns the statistics of this part: for a CUDA device the host waits.
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
/// A single value stands for all (quantised RGC with feedback).
void subtract_sent(Slice<float> velocity, Slice<float> residual, Slice<const std::uint32_t> indices,
                   Slice<const float> values, bool mask);

/// left = x - sent: what a codec has lost. A value that is no finite number leaves 0, for it would stay. left may be x
/// or sent.
void keep_left(Slice<float> left, Slice<const float> x, Slice<const float> sent);

/// *mean, one value on their device, becomes the values' mean (0 of none), added up in double
/// (compress/ordered_sum.h): what quantised RGC sends for all of them.
void mean_of(Slice<const float> values, Slice<float> mean);

}  // namespace laconic::compress
