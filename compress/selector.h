#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/candidates.h"
#include "compress/codec.h"
#include "compress/residual.h"
#include "compress/selection.h"
#include "core/state.h"

namespace laconic::compress {

namespace fast {
struct Scratch;
}
namespace cuda {
struct SelectScratch;
}

/// How the elements to send are chosen. "Top k" is exact: the k largest magnitudes, of equal ones those with the lowest
/// indices. What is needed besides the values stands in brackets.
enum class SelectorKind : std::uint8_t {
  exact,            ///< top k: of the candidates above a remembered or sampled floor. About one pass, or none
  radix,            ///< top k by scanning and scattering digit after digit: the baseline of RedSync
  radix_histogram,  ///< top k by counting digits over all values, and then one pass that collects
  nth_element,      ///< top k by std::nth_element: what the others are tested against
  trimmed,          ///< top k, as the set of RedSync Algorithm 2 is (settled); made by the means of `exact`
  trimmed_steps,    ///< Algorithm 2 as written: one pass per threshold
  search,           ///< RedSync Algorithm 3 (settled): k to 2k elements above a threshold found by bisection
  search_steps,     ///< Algorithm 3 as written: one pass per threshold. The same set as `search`
  sampled,          ///< Algorithm 3 every 5th time; in between all above the same threshold, 2k at most
  fixed,            ///< all above SelectorOptions::threshold, however many (Strom)
  dropping,         ///< about k: all at or above a threshold estimated from a sample (gradient dropping)
  dgc,              ///< at most k: the same, and the top k of them if there are more (DGC, hierarchical)
  adacomp,          ///< |V + latest| at least the largest |V| of its bin (AdaComp) [latest]; k plays no part
  random,           ///< k drawn evenly, the same on every rank [key without rank and hop]
};
/// "exact", "radix", "radix-histogram", "nth-element", "trimmed", "trimmed-steps", "search", "search-steps", "sampled",
/// "fixed", "dropping", "dgc", "adacomp", "random"
const char* to_string(SelectorKind method);
/// throws UsageError in the name of `where` with the nearest name
SelectorKind selector_kind(const std::string& name, const std::string& where);
const std::vector<SelectorKind>& selector_kinds();

struct SelectorOptions {
  SelectorKind method = SelectorKind::exact;
  float threshold = 0;         ///< of `fixed`
  std::size_t bin = 500;       ///< elements, of `adacomp`: its paper has 50 for convolutions, 500 for others
  double sample = 0.001;       ///< share looked at, of `dropping` (its paper's) and `dgc` (0.1 to 1 %)
  std::uint64_t interval = 5;  ///< of `sampled`: a search every so many selections
};

struct SelectionInput {
  Slice<const float> values;             ///< V, n < 2^32 of them
  std::size_t k = 0;                     ///< 0 <= k <= n
  Sign sign = Sign::any;                 ///< `adacomp` and `random` know only any
  const ResidualStats* stats = nullptr;  ///< of all of V; nullptr: a pass finds out, where it is needed
  StatsSum* sums = nullptr;              ///< the same, which may stand on the device still
  Candidates* candidates = nullptr;      ///< that prepare() was given and the residual pass filled; may be nullptr
  Slice<const float> latest{};           ///< `adacomp`: what this step has added to V
  Key key{};                             ///< `random`
};

/// Of a list those that are above 0 (Sign::positive) or below (Sign::negative), in their order. For a CUDA device the
/// host waits for their number.
void elements_of_sign(Slice<const std::uint32_t> indices, Slice<const float> values, Sign sign, Selection& out);
/// Each value becomes `magnitude` with its sign; what is not above 0 is below.
void keep_signs(Slice<float> values, float magnitude);

/// What `dropping` and `dgc` look at of n values: so many, and the rank among them (from 1) of the threshold for k.
struct Sample {
  std::size_t size, rank;
};
Sample sample_of(std::size_t n, std::size_t k, double share);

/// Chooses the elements of one tensor, step after step. What it remembers of earlier steps (a floor for candidates, the
/// threshold of `sampled`, how often it was asked) is its state; of these only threshold and count decide about the
/// result, never the floor, the number of threads, the instruction set or the device. One thread at a time.
/// On a CUDA device what decides stays there; the host waits once, for the number of elements and the threshold. It
/// waits once more where candidates were not enough, for `fixed`, `adacomp` and `dropping`, which know no limit, and
/// twice more for `dgc`. But for `radix`, top k is made by counting digits, whatever the method's name.
class Selector {
 public:
  explicit Selector(const SelectorOptions& options = {});
  ~Selector();
  Selector(Selector&&) noexcept;
  Selector& operator=(Selector&&) noexcept;

  SelectorKind method() const { return options_.method; }

  /// No selection of k among n elements has more: k, 2k or n, by method.
  std::size_t most(std::size_t k, std::size_t n) const;

  /// Sets the candidates for the next selection of k under `sign`: what of the residual is worth keeping. Inactive if
  /// that is not known yet, or of no use to the method. Does not change the selector.
  void prepare(Candidates& candidates, std::size_t k, Sign sign = Sign::any) const;

  /// Chooses. One sign: only values of that sign, even if there are fewer than k of them, or none.
  /// 0 and the infinities are values like others.
  /// throws DataError if there is a NaN (of one sign: if the statistics say so); ShapeError: k > n, n >= 2^32, `latest`
  ///        of another length, or a sign that the method does not know
  void select(const SelectionInput& input, Selection& out);
  Selection select(const SelectionInput& input) {
    Selection out;
    select(input, out);
    return out;
  }

  /// Bit for bit: one tensor "selector".
  void save(StateDict& state) const;
  /// throws DataError if it is missing, or not of this version
  void load(const StateDict& state);

 private:
  /// For each sign.
  struct Memory {
    float floor = -1;        ///< for candidates; below 0: not known
    float threshold = 0;     ///< of `sampled`
    std::uint64_t turn = 0;  ///< of `sampled`: selections so far
    float last = 0;          ///< threshold of the selection before
  };
  bool searches(std::uint64_t turn) const;
  std::size_t needed(std::size_t k, std::uint64_t turn) const;
  /// What the next selection goes by, after one that has found `out` and a floor.
  static void remember(Memory& memory, float floor, const Selection& out);
  /// How many elements a floor aims at.
  static std::size_t target_for(std::size_t need, std::size_t k);
  void select_on_host(const SelectionInput& input, std::uint64_t turn, Memory& memory, Selection& out);
  void select_on_cuda(const SelectionInput& input, std::uint64_t turn, Memory& memory, Selection& out);

  SelectorOptions options_;
  Memory memory_[3];
  std::unique_ptr<fast::Scratch> scratch_;
  std::shared_ptr<cuda::SelectScratch> cuda_scratch_;
};

}  // namespace laconic::compress
