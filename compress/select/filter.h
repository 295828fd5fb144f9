#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/select/residual.h"
#include "compress/select/selection.h"
#include "core/slice.h"

namespace laconic::compress {

/// The caller adds whose value it is, and advice.
inline constexpr const char* kNaNSentence =
    "selection: a value to choose from is not a number (NaN). Has the training diverged?";

/// Chooses elements of a tensor in host memory in about one pass: a floor that some more elements reach than are
/// needed, one filter (or the residual pass) that keeps those, and everything else on what was kept. It runs on
/// kernel_threads() threads, and keeps its memory from step to step.
class Filter {
 public:
  struct Request {
    Slice<const float> values;
    Sign sign = Sign::any;
    std::size_t need = 0;  ///< elements that must be known at least
    Candidates* candidates = nullptr;
    float floor = -1;  ///< an earlier step's floor; below 0: not known
  };
  /// Keeps at least request.need elements, or all that compete. Counts its passes in out.
  /// throws NotANumber if a NaN is above the floor
  void keep(const Request& request, Selection& out);

  /// Says whether all elements whose key is at least `key` were kept.
  bool holds(std::int32_t key) const { return key >= kept_.floor || kept_.floor == lowest_key(request_.sign); }
  /// The number of elements that have at least this key; any number above `need` where not all of them were kept.
  std::size_t count_from(std::int32_t key) const;
  /// The top k <= need of what was kept, exact, into out. Returns a floor for the next step: about target_for()
  /// elements reach it, or fewer (but some more than are needed) where the floor before let in more than it aimed at,
  /// because values grow from step to step. Returns -1 if there is nothing to choose.
  float take_top(std::size_t k, Selection& out);
  /// Everything that was kept and has at least this key, into out.
  void take_from(std::int32_t key, Selection& out);
  /// Returns the floor for the next step of a selection that was not take_top().
  float next_floor(std::size_t k);

  /// Appends the first `most` elements, by index, whose key is at least `key`. One pass.
  void collect(Slice<const float> values, Sign sign, std::int32_t key, std::size_t most, Selection& out);
  /// Chooses the first `most` elements above a threshold, from candidates if they hold all of them.
  void above(Slice<const float> values, Candidates* candidates, Sign sign, float threshold, std::size_t most,
             Selection& out);
  /// Keeps of what out holds, whose keys are at least `floor`, the top k alone.
  void keep_top(std::size_t k, Sign sign, std::int32_t floor, Selection& out);

 private:
  /// All elements whose key is at least `floor`.
  struct Kept {
    const std::uint32_t* indices = nullptr;
    const float* values = nullptr;
    std::size_t size = 0;
    std::int32_t floor = 0, largest = 0;  ///< keys
    bool ties = false;        ///< fewer than were needed; with those that have the key floor - 1 there are enough
    bool remembered = false;  ///< the floor came from an earlier step
  };
  /// What a thread finds, by the first of its chunks.
  struct Part {
    std::int32_t floor = 0;
    bool ties = false, used = false;
  };
  template <class Noted>
  std::vector<Part> emit(Slice<const float> values, Sign sign, std::int32_t floor, bool dense, Noted&& noted);
  Kept filter(std::int32_t floor);
  std::int32_t sampled_floor(double aim);
  std::int32_t certain_floor() const;
  bool enough() const;
  std::size_t next_target(std::size_t k) const;
  void shrink(Elements& part, std::int32_t floor);

  Request request_{};
  Kept kept_{};
  std::vector<Elements> parts_;  // what each thread found
  Elements joined_;              // all parts, where several threads found some
  std::vector<std::int32_t> keys_, line_;
};

/// Returns the number of elements that a floor for the next step aims at: somewhat more than are needed, so that there
/// are enough again.
std::size_t target_for(std::size_t need, std::size_t k);

/// A floor below the magnitude `least` that about `times` as many elements reach. `middle` is the median magnitude of
/// those that reach `least`. Tails fall about as exponentials do: each doubling lies as far down again as `middle` lies
/// above `least`.
float floor_below(double times, float least, float middle);

/// Where values are cut to give the top k: above `key`, and the first `equal` of those that have it.
struct RankCut {
  std::int32_t key = 0;
  std::size_t equal = 0;
};
/// Appends the elements of a cut to `out`, and sets its threshold. On the calling thread.
void take(Slice<const float> values, Sign sign, RankCut cut, Selection& out);

/// The key of rank r, from 0, among the largest. Changes the order of the keys.
std::int32_t key_of_rank(std::vector<std::int32_t>& keys, std::size_t r);

}  // namespace laconic::compress
