#pragma once
#include <cstddef>
#include <cstdint>

#include "compress/cuda/residual.h"
#include "compress/select/selection.h"

/// What selections on a device are made of. All of it is only asked for: states and counts stay in device memory until
/// the host reads them, once, when everything has been asked for. Keys are those of compress/select/selection.h.
namespace laconic::compress::cuda {

/// A list to choose from: n values, or the first of them (*count, if it is not null), with their indices (null: their
/// places).
struct Source {
  const float* values = nullptr;
  const std::uint32_t* indices = nullptr;
  std::size_t n = 0;
  const std::uint32_t* count = nullptr;  ///< device memory
};

/// Where a list is cut to give its top k: those above `key`, and the first `equal` of those that have it.
struct Cut {
  std::uint32_t competing;  ///< elements that compete
  std::uint32_t chosen;     ///< min(k, competing)
  std::int32_t key;
  std::uint32_t equal;
  std::int32_t floor;        ///< the key of rank `target`, or the last one's
  std::uint32_t floor_rank;  ///< working memory
  std::int32_t middle;       ///< about the key of the middle one
  std::uint32_t target;      ///< the target that was asked for, or less: see cut_at
  std::uint32_t nan;         ///< a NaN was seen
};

/// The bisection of compress/select/search.h.
struct Bisection {
  double low, high;
  double mean;
  float max;
  float with_enough;  ///< the threshold; -1: none
  std::uint32_t done;
  std::int32_t keys[32];     ///< keys of the next thresholds; working memory
  std::uint32_t counts[32];  ///< how many reach each; working memory
};

struct Counted {
  std::uint32_t taken, ties;
};

/// In device memory, zero at first; the host reads all of it at once.
struct SelectState {
  Cut cut;
  Bisection bisection;
  Counted candidates;  ///< taken: how many there are
  Counted chosen;      ///< taken: how many were, but for ties
  ResidualStats stats;
};

/// found_indices and found_values, with room for `most`, become what is at or above the floor in the tiles of a part of
/// n elements, after what earlier parts have put there (*all).   values : the whole tensor
void gather_candidates(const TileCandidates& part, std::size_t n, const float* values, std::size_t most,
                       std::uint32_t* found_indices, float* found_values, Counted* all);

/// state->cut. Three rounds of 11, 10 and 10 bits over keys from the lowest that competes.
///   target  elements that the next floor aims at; where `remembered`, less if more compete than it says, down to
///           `need` and a quarter of what is between
void cut_at(const Source& from, Sign sign, std::uint32_t k, std::uint32_t target, std::uint32_t need, bool remembered,
            SelectState* state);

/// state->cut without a floor, as RedSync's baseline finds it: digit after digit, each of which is counted, and what
/// has it scanned and scattered into a list of its own for the next.
void cut_by_scattering(const Source& from, Sign sign, std::uint32_t k, SelectState* state);

/// The elements of a cut, in order.
void take_cut(const Source& from, Sign sign, std::size_t most, SelectState* state, std::uint32_t* indices,
              float* values);

/// state->bisection, by the statistics in state->stats.
///   floor  the list has all elements from this key on
void bisect(const Source& from, Sign sign, std::uint32_t k, std::int32_t floor, SelectState* state);

/// Elements whose key is above a threshold: that of state->bisection (none: nothing is taken), or a key that the host
/// knows, or with bins the largest of a bin (AdaComp: latest, bin, largest).
struct Above {
  bool bisected = false;
  std::int32_t key = 0;
  const float* latest = nullptr;
  std::size_t bin = 0;
  const std::int32_t* largest = nullptr;
};
/// In two steps, where the host has to know how many they are before there can be room for them: counts, places: what
/// places() says for n.
std::size_t places(std::size_t n);
void count_above(const Source& from, Sign sign, const Above& above, std::byte* places, SelectState* state);
void take_above(const Source& from, Sign sign, const Above& above, const std::byte* places, std::size_t most,
                SelectState* state, std::uint32_t* indices, float* values);

/// state->stats = stats
void set_stats(const ResidualStats& stats, SelectState* state);

/// compress/select/selector.h, keep_signs
void keep_signs(float* values, std::size_t n, float magnitude);

/// largest[b] = the largest key of the bin, at least 1.
void largest_of_bins(const float* values, std::size_t n, std::size_t bin, std::int32_t* largest);

/// sample[j] = a value of the j-th of `size` equal parts of n, which `turn` decides: the one that `dropping` looks at.
void sample(const float* values, std::size_t n, std::size_t size, std::uint64_t turn, float* sample);

}  // namespace laconic::compress::cuda
