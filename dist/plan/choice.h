#pragma once
#include <cstdint>
#include <string>

#include "compress/select/selector.h"
#include "core/parameter.h"

namespace laconic::dist {

/// Says what one parameter sends: all of its gradient; elements of a residual that collects all gradients
/// (dist/method/redsync/redsync.h), chosen by a selector (compress/select/selector.h); or two thin matrices whose
/// product comes near it (dist/method/powersgd/powersgd.cc).
struct Choice {
  std::string selector{};  ///< the name of one of compress::selectors(); empty: no elements are chosen
  bool quantised = false;  ///< one sign at a time, all by one value (qRGC)
  int rank = 0;            ///< columns of the thin matrices; 0: there are none

  /// All of it travels, by an allreduce.
  bool all() const { return selector.empty() && rank == 0; }
  bool operator==(const Choice&) const = default;
};
/// "trimmed", "trimmed, signs"; "rank 2"; "all".
std::string to_string(const Choice& choice);

/// How the parameters of a model are to be dealt with.
struct Dispatch {
  ///   dense      all of every gradient
  ///   fixed      `selector` for every parameter from dense_below on
  ///   paper      RedSync's: from dense_below on; trimmed, but in models with recurrent layers the sampled search for
  ///              recurrent weights, embeddings and the output layer, unsampled where quantised
  ///   automatic  exact, for every parameter for which the model below says that it takes less time than all of it
  ///   low_rank   a product of two matrices of `rank` columns, for every matrix of which that saves half or more
  enum class Kind : std::uint8_t { dense, fixed, paper, automatic, low_rank };
  Kind kind = Kind::dense;
  std::string selector = "exact";
  bool quantised = false;                ///< where it may be: never the output layer
  double density = 1e-3;                 ///< share of the elements that is sent
  std::int64_t dense_below = 128 << 10;  ///< bytes: smaller parameters travel whole, fused with their neighbours
  double latency_seconds = 50e-6;        ///< of the network, for `automatic`
  double seconds_per_byte = 8e-9;        ///< of the network, for `automatic`: 1 Gbit/s
  /// For `automatic`: of an element, gathering it and choosing from it, which read and write about five arrays.
  double residual_seconds = 1e-9;
  int rank = 2;  ///< for `low_rank`
};

/// recurrent : the model has recurrent layers
/// source   RedSync 2.2 and 3 (dispatch), settled: "below 128 KB" is 131,072 bytes
Choice choice_of(const ParameterInfo& parameter, bool recurrent, const Dispatch& dispatch, int workers);

using compress::elements_to_send;

}  // namespace laconic::dist
