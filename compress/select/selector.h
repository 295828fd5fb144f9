#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compress/select/residual.h"
#include "compress/codec.h"
#include "compress/select/selection.h"
#include "core/state.h"
#include "core/base/steps.h"

namespace laconic::compress {

namespace cuda {
struct SelectScratch;
}

/// Says what a selector may be asked for, and what becomes of what it chooses.
struct SelectorTraits {
  bool by_name = true;           ///< the setting `selector` may name it; else one method has it for its own
  bool by_k = true;              ///< it chooses about k elements; else its own rule says how many
  bool by_sign = true;           ///< it can choose among the values of one sign
  bool one_value = true;         ///< one value may stand for all that it chooses of a sign (RedSync's qRGC)
  bool needs_latest = false;     ///< it goes by what the last step has added, too
  bool same_everywhere = false;  ///< every rank chooses the same places: only values need to travel
  /// Elements that it keeps while it chooses, over those that it chooses: about, as measured. 0: it keeps none.
  double keeps = 1.8;
  bool one_magnitude = false;    ///< each value is sent as plus or minus the threshold
};

struct SelectorOptions {
  float threshold = 0;         ///< `fixed`: the magnitude above which values are sent
  std::size_t bin = 500;       ///< `adacomp`: elements of a bin; its paper has 50 for convolutions, 500 for others
  double sample = 0.001;       ///< `dropping`, `dgc`: share of the values that the sample has
  std::uint64_t interval = 5;  ///< `sampled`: selections from search to search
};

struct SelectionInput {
  Slice<const float> values;             ///< V, n < 2^32 of them
  std::size_t k = 0;                     ///< 0 <= k <= n
  Sign sign = Sign::any;                 ///< the values that compete
  const ResidualStats* stats = nullptr;  ///< statistics of all of V; null: a pass finds them where they are needed
  StatsSum* sums = nullptr;              ///< the same statistics, perhaps on the device still
  Candidates* candidates = nullptr;      ///< candidates set by prepare() and filled by the residual pass; may be null
  Slice<const float> latest{};           ///< gradients that this step has added to V, for a selector that needs them
  std::size_t most = SIZE_MAX;           ///< limit of what is wanted of a selector that does not go by k
  Key key{};                             ///< key of random numbers that all ranks share (no rank, no hop)
};

/// Chooses the elements of one tensor, step after step. What it has chosen is a Selection, the papers'
/// communication-set. Candidates are elements that the residual pass keeps for it; a Filter finds them where nothing is
/// known. Each way of choosing is a class of its own, in a file of compress/select/ that has its formula and its halves
/// for both devices; make_selector() makes it. "Top k" is exact everywhere: the k largest magnitudes, of equal ones
/// those with the lowest indices. What a selector remembers of earlier steps is its state. The result depends on
/// neither the number of threads, nor the instruction set, nor the device. One thread at a time.
/// On a CUDA device what decides stays there; the host needs one look at it, for the number of elements and the
/// threshold, and one more where candidates were not enough, or where there is no limit to what is chosen.
class Selector {
 public:
  Selector() = default;
  virtual ~Selector();
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;

  const std::string& name() const { return name_; }
  const SelectorTraits& traits() const { return traits_; }

  /// No selection of k among n elements has more.
  virtual std::size_t most(std::size_t k, std::size_t n) const { return k < n ? k : n; }

  /// About the bytes of memory that it takes to choose k of n in host memory, with candidates and selection.
  ///   times : factor of what is kept where values grow from step to step
  double bytes(std::size_t k, std::size_t n, double times = 1) const;

  /// Sets the candidates for the next selection of k under `sign`: which values of the residual are worth keeping.
  /// Inactive if that is not known yet, or of no use here. Does not change the selector.
  virtual void prepare(Candidates& candidates, std::size_t k, Sign sign = Sign::any) const;

  /// Chooses. One sign: only values of that sign, even if there are fewer than k of them, or none.
  /// 0 and the infinities are values like others.
  /// A ghost's values are not there: it chooses k of them, evenly spread.
  /// throws DataError if there is a NaN (of one sign: if the statistics say so); ShapeError: k > n, n >= 2^32, `latest`
  ///        of another length, or a sign that the selector does not know
  /// Waits for a CUDA device.
  void select(const SelectionInput& input, Selection& out);
  /// Does so in steps, of which there are none but on a CUDA device. There `input` and `out` must outlive them, and the
  /// next selection begins after their end.
  Steps select_in_steps(const SelectionInput& input, Selection& out);
  Selection select(const SelectionInput& input) {
    Selection out;
    select(input, out);
    return out;
  }

  /// Bit for bit: one tensor "selector".
  void save(StateDict& state) const;
  /// throws DataError if it is missing, or not of this version
  void load(const StateDict& state);

 protected:
  /// The selector's memory for one sign.
  struct Memory {
    float floor = -1;        ///< the candidates' floor; below 0: not known
    float threshold = 0;     ///< a threshold of the selector's own
    std::uint64_t turn = 0;  ///< selections so far
    float last = 0;          ///< threshold of the selection before
  };
  /// One selection: n > 0, and k > 0 if the traits say that it goes by k.
  struct Offer {
    const SelectionInput& in;
    ResidualStats stats;  ///< figures of in.values; none on a device, or where meets_nan() holds and nobody knew them
    std::uint64_t turn;   ///< selections before this one
    Memory& memory;
    /// Remembers a floor for the next selection's candidates, after a selection that chose `out`.
    void remember(float floor, const Selection& out) const;
  };

  /// Fills `out`, which is empty: ascending indices, and the values there. Host memory.
  virtual void choose(const Offer& offer, Selection& out) = 0;
  /// Does so in a CUDA device's memory. The default throws Error. A coroutine of laconic stands in `if constexpr
  /// (kCudaBuilt)`, since a build without CUDA has no kernels.
  virtual Steps choose_on_cuda(Offer offer, Selection& out);
  /// Says whether choose() itself meets every NaN under this sign. Then no pass over the values looks for one.
  virtual bool meets_nan(Sign) const { return false; }

  const Memory& memory(Sign sign) const { return memory_[static_cast<int>(sign)]; }
  /// Asks for candidates from `floor` on, with room for more than the `need` that are wanted. Below 0 asks for
  /// none.
  static void keep_from(Candidates& candidates, float floor, Sign sign, std::size_t need);
  std::shared_ptr<cuda::SelectScratch> cuda_scratch_;

 private:
  friend struct SelectorKind;
  std::string name_;
  SelectorTraits traits_;
  Memory memory_[3];
};

/// A kind of selector, as `selector` and a plan's `choice` name it. Its own file has it.
struct SelectorKind {
  std::string name;
  SelectorTraits traits{};
  std::function<std::unique_ptr<Selector>(const SelectorOptions&)> make_bare;

  /// Makes one, which knows its name and traits.
  std::unique_ptr<Selector> make(const SelectorOptions& options = {}) const;
};

/// The table of all kinds. Add your own before training begins.
std::vector<SelectorKind>& selectors();
/// Finds a kind. The reference holds until the table changes.
/// throws UsageError in the name of `where` with the nearest name, or with all
const SelectorKind& selector_kind(std::string_view name, std::string_view where = "`selector`");
/// Makes the selector of that name.
std::unique_ptr<Selector> make_selector(const std::string& name, const SelectorOptions& options = {});

/// Takes the elements of a list that are above 0 (Sign::positive) or below (Sign::negative), in their order. For a CUDA
/// device the host waits for their number.
void elements_of_sign(Slice<const std::uint32_t> indices, Slice<const float> values, Sign sign, Selection& out);
/// Gives each value this magnitude and its own sign; what is not above 0 counts as below.
void keep_signs(Slice<float> values, float magnitude);

/// k of n elements at a density: max(1, ceil(D n)), at most n.
std::int64_t elements_to_send(std::int64_t n, double density);

}  // namespace laconic::compress
