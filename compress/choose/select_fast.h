#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "compress/choose/candidates.h"
#include "compress/elements.h"
#include "compress/choose/residual.h"
#include "compress/choose/selection.h"
#include "core/slice.h"

/// Selection in about one pass: a floor that some more than k elements reach, one filter (or the residual pass) that
/// keeps those, and everything else on what was kept. Host memory; kernel_threads() threads. NaNs above the floor are
/// found and thrown as DataError.
namespace laconic::compress::fast {

inline constexpr const char* kNaNSentence =  // the caller adds whose value it is, and advice
    "selection: a value to choose from is not a number (NaN). Has the training diverged?";

/// Memory of a selector, kept from step to step.
struct Scratch {
  std::vector<Elements> parts;  ///< by thread
  Elements kept;
  std::vector<std::int32_t> keys, line;
};

/// What is chosen from, how many elements must be known at least, and what helps.
struct Request {
  Slice<const float> values;
  Sign sign = Sign::any;
  std::size_t need = 0;
  Candidates* candidates = nullptr;
  float floor = -1;  ///< of an earlier step; below 0: not known
};

/// Returns how many elements a floor for the next step aims at: somewhat more than are needed, so that there are enough
/// again.
std::size_t target_for(std::size_t need, std::size_t k);

/// A floor below the magnitude `least` that about `times` as many elements reach. `middle` is the median magnitude of
/// those that reach `least`. Tails fall about as exponentials do: each doubling lies as far down again as `middle` lies
/// above `least`.
float floor_below(double times, float least, float middle);

/// The sample that `dropping` and `dgc` look at: its size, and the rank in it (from 1) of the threshold for k of n.
struct Sample {
  std::size_t size, rank;
};
Sample sample_of(std::size_t n, std::size_t k, double share);
/// Estimates the key that k of the n values reach, by `share` of them, spread evenly and shifted by `turn`.
std::int32_t sampled_key(Slice<const float> values, std::size_t k, Sign sign, double share, std::uint64_t turn);

/// The top request.need, exact, into out. Returns a floor for the next step: about target_for() elements reach it,
/// fewer (but somewhat more than are needed) where the floor before has let in more than it aimed at, because values
/// grow from step to step.
float top(const Request& request, Scratch& scratch, Selection& out);

/// The set of steps::search, into out; request.need > 2k, or all. Returns a floor for the next step.
float search(const Request& request, std::size_t k, const ResidualStats& stats, Scratch& scratch, Selection& out);

/// The first `most` elements, by index, whose key is at least `key`.
void collect(Slice<const float> values, Sign sign, std::int32_t key, std::size_t most, Scratch& scratch,
             Selection& out);

/// Chooses the first `most` elements above a threshold, from candidates if they hold all of them.
void above(Slice<const float> values, Candidates* candidates, Sign sign, float threshold, std::size_t most,
           Scratch& scratch, Selection& out);

/// The top k of what out holds, whose keys are at least `floor`.
void keep_top(std::size_t k, Sign sign, std::int32_t floor, Scratch& scratch, Selection& out);

}  // namespace laconic::compress::fast
