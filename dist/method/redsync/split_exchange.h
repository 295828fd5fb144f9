#pragma once
#include <cstdint>
#include <vector>

#include "dist/collective/alltoallv.h"
#include "dist/method/redsync/residual_tensor.h"

namespace laconic::dist {

/// Sums sparse vectors over ranks with traffic that does not grow with their number: each rank owns a range of indices,
/// receives the others' elements in it, adds them up, keeps the largest sums as its share of k, and gives these to all.
///
///     load        cut the chosen elements by owner
///     run         alltoallv of the parts; merge, choose, pack; allgatherv of the sums       communication thread
///     all()       what every owner gave: disjoint, ascending with the rank
///     dropped     the sums in the own range that were not among its share: the caller keeps them as residual, so that
///                 over all ranks nothing is lost
///
///   cost     (N-1 + lg N) alpha + 2 (N-1)/N w k beta; w: 8 bytes for index and value (quantised, first leg: 4), if the
///            chosen elements spread evenly over the ranges
///   source   Ok-Topk (Li & Hoefler 2022), with fixed ranges
class SplitExchange {
 public:
  /// n : elements of the tensor. own : how ranks send what they chose; sums always travel with a value each.
  SplitExchange(SparseWire own, std::size_t n, int workers, int rank);

  /// indices, values : in host memory
  /// k : elements that all owners together give back; most : elements that a rank may have chosen, the same everywhere
  void load(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t k, std::size_t most);
  /// throws CommError if a rank is lost, or sends what is no message of this tensor
  Task<> run(Communicator& comm);

  const Gathered& all() const { return all_; }
  const SparseWire& wire() const { return sums_; }  ///< of what is in all()
  const std::vector<std::uint32_t>& dropped_indices() const { return dropped_indices_; }
  const std::vector<float>& dropped_values() const { return dropped_values_; }
  /// Bytes that this rank sent: its elements to their owners, and its sums to all.
  std::size_t own_bytes() const;
  std::size_t buffer_bytes() const { return received_.capacity() + all_.capacity(); }

 private:
  void merge();

  const SparseWire own_, sums_;
  const std::size_t n_;
  const int workers_, rank_;
  std::size_t share_ = 0, most_part_bytes_ = 0, most_sum_bytes_ = 0;
  std::vector<compress::Bytes> parts_;
  Gathered received_, all_;
  compress::Bytes kept_;
  std::vector<compress::SparseView> views_;
  std::vector<std::uint32_t> indices_, dropped_indices_;
  std::vector<float> values_, dropped_values_;
};

}  // namespace laconic::dist
