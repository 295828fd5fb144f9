#include "dist/method/redsync/split_exchange.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace laconic::dist {
namespace {

/// The first index of rank r's range: ranges differ by at most one element.
std::uint64_t range_begin(std::size_t n, int r, int workers) {
  return static_cast<std::uint64_t>(n) * static_cast<std::uint64_t>(r) / static_cast<std::uint64_t>(workers);
}

/// Orders as |x| does, and NaN above all.
std::uint32_t magnitude(float x) { return std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu; }

}  // namespace

SplitExchange::SplitExchange(SparseWire own, std::size_t n, int workers, int rank)
    : own_(own),
      sums_{.format = {.coding = own.format.coding, .one_value = false}, .both_signs = false},
      n_(n),
      workers_(workers),
      rank_(rank),
      parts_(static_cast<std::size_t>(workers)) {}

void SplitExchange::load(Slice<const std::uint32_t> indices, Slice<const float> values, std::size_t k,
                         std::size_t most) {
  const auto N = static_cast<std::size_t>(workers_);
  share_ = (k + N - 1) / N;
  most_part_bytes_ = own_.max_bytes(most, n_);
  most_sum_bytes_ = sums_.max_bytes(share_, n_);
  const std::uint32_t* from = indices.begin();
  for (int d = 0; d < workers_; ++d) {
    const std::uint32_t* to = std::lower_bound(from, indices.end(), range_begin(n_, d + 1, workers_));
    const auto begin = static_cast<std::size_t>(from - indices.begin()), count = static_cast<std::size_t>(to - from);
    compress::Bytes& part = parts_[static_cast<std::size_t>(d)];
    part.clear();
    own_.encode(indices.sub(begin, count),
                own_.format.one_value && !own_.both_signs ? values : values.sub(begin, count), n_, part);
    from = to;
  }
}

Task<> SplitExchange::run(Communicator& comm) {
  co_await alltoallv(comm, parts_, most_part_bytes_, received_);
  merge();
  co_await allgatherv(comm, kept_.slice(), most_sum_bytes_, all_);
}

std::size_t SplitExchange::own_bytes() const {
  std::size_t bytes = static_cast<std::size_t>(workers_ - 1) * (kept_.size() + sizeof(std::uint32_t));
  for (int d = 0; d < workers_; ++d)
    if (d != rank_) bytes += parts_[static_cast<std::size_t>(d)].size();
  return bytes;
}

/// Adds up in rank order, keeps the `share_` largest sums (of equal ones those with the lowest indices).
void SplitExchange::merge() {
  indices_.clear(), values_.clear(), dropped_indices_.clear(), dropped_values_.clear();
  const std::uint64_t begin = range_begin(n_, rank_, workers_), end = range_begin(n_, rank_ + 1, workers_);
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  for (int r = 0; r < workers_; ++r) {
    const std::size_t views =
        reading([&] { return own_.read(received_[r], n_, views_, 0); }, "split exchange: what rank ", r, " sent");
    for (std::size_t v = 0; v < views; ++v) {
      const compress::SparseView& view = views_[v];
      const Slice<const std::uint32_t> theirs = view.indices();
      require<CommError>(theirs.empty() || (theirs[0] >= begin && theirs[theirs.size() - 1] < end),
                         "split exchange: rank ", r, " sent elements ", theirs.empty() ? 0 : theirs[0],
                         " and on to rank ", rank_, ", which owns [", begin, ", ", end,
                         "). Do all ranks run the same program?");
      indices.clear(), values.clear();
      std::size_t i = 0, j = 0;
      while (i < indices_.size() || j < theirs.size()) {
        const bool mine = j == theirs.size() || (i < indices_.size() && indices_[i] <= theirs[j]);
        const bool their = i == indices_.size() || (j < theirs.size() && theirs[j] <= indices_[i]);
        indices.push_back(mine ? indices_[i] : theirs[j]);
        values.push_back((mine ? values_[i] : 0.0f) + (their ? view.value(j) : 0.0f));
        i += mine, j += their;
      }
      indices_.swap(indices), values_.swap(values);
    }
  }
  if (indices_.size() > share_) {
    std::vector<std::uint32_t> order(indices_.size());
    std::iota(order.begin(), order.end(), 0u);
    const auto larger = [&](std::uint32_t a, std::uint32_t b) {
      const std::uint32_t x = magnitude(values_[a]), y = magnitude(values_[b]);
      return x > y || (x == y && a < b);
    };
    std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(share_), order.end(), larger);
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(share_));
    std::sort(order.begin() + static_cast<std::ptrdiff_t>(share_), order.end());
    for (std::size_t j = share_; j < order.size(); ++j) {
      dropped_indices_.push_back(indices_[order[j]]);
      dropped_values_.push_back(values_[order[j]]);
    }
    for (std::size_t j = 0; j < share_; ++j) indices_[j] = indices_[order[j]], values_[j] = values_[order[j]];
    indices_.resize(share_), values_.resize(share_);
  }
  kept_.clear();
  sums_.encode(slice(std::as_const(indices_)), slice(std::as_const(values_)), n_, kept_);
}

}  // namespace laconic::dist
