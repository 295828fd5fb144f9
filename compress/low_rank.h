#pragma once
#include <cstdint>

#include "core/parameter.h"
#include "core/slice.h"
#include "core/state.h"

namespace laconic::compress {

/// Makes rows orthonormal, each from what the rows before it have left, in an order that depends on sizes alone
/// (modified Gram-Schmidt, each row freed of the others twice). A row that the others explain
/// but for rounding becomes zeros, as does one of zeros. NaN stays NaN.
///   x : [rows, n], in host memory
void orthonormalise(float* x, std::int64_t rows, std::int64_t n);

/// One parameter on one rank as a matrix, n rows (its first dimension) by m columns (all others), that comes near a
/// product of two thin ones:
///
///     M = G + E                            gather, row by row     E: the error, what has not been sent yet
///     P = M Q                              project                then P is summed over ranks
///     P orthonormal,  Q = M' P             fit                    then Q is summed over ranks
///     G = P Q',  E = M - share G           approximate            share: 1 over the number of ranks
///
/// Summed over ranks, what the approximation takes and the errors are what was gathered. P and Q lie transposed: then a
/// column is one piece of memory. Before it is used, Q too is made orthonormal: then no column loses its digits beside
/// the others, and P spans the same. A column of Q that is zero would stay so, and is drawn anew.
///
///   memory   E lies in an arena; P and Q take rank (n + m) numbers, and the approximation n m for a moment
///   cost     three products of 2 rank n m operations, and six passes over n m numbers
///   source   PowerSGD (Vogels et al. 2019), Algorithms 1 and 2
class LowRank {
 public:
  /// errors : laid out like the arena; this parameter's part is used. seed : with the parameter's name it says what
  /// Q begins with.   rank : at least 1 and at most n and m
  LowRank(const Parameter& parameter, int rank, const Tensor& errors, std::uint64_t seed);

  /// Takes up these rows of parameter.grad(). All rows come once a step.
  void gather(Rows rows);
  bool complete() const { return gathered_ == parameter_.info.elements; }  ///< all rows have come
  /// step : of a column that is drawn anew
  void project(std::int64_t step);
  void fit();
  /// Writes parameter.grad(): P Q', with Q summed over ranks.
  void approximate(float share);

  Slice<float> p() const { return p_.slice(); }  ///< [rank, n], after project()
  Slice<float> q() const { return q_.slice(); }  ///< [rank, m], after fit()
  /// [n, m]: M from gather() to approximate(), else E.
  const Tensor& matrix() const { return matrix_; }
  int rank() const { return rank_; }

  /// Save and load "q". (E is the caller's.)
  void save(StateDict& state) const { state.set("q", q_); }
  /// throws DataError naming the parameter if what is there is no Q of it
  void load(const StateDict& state);

 private:
  const Parameter& parameter_;
  const int rank_;
  const std::uint64_t seed_;
  const Tensor matrix_;  // this parameter's part of the errors
  Tensor p_, q_;         // transposed
  std::int64_t gathered_ = 0;
};

}  // namespace laconic::compress
