#pragma once
#include <cstdint>
#include <vector>

namespace laconic {

/// Which samples worker `rank` of N = `ranks` takes in which step. Every sample belongs to exactly one worker and one
/// step of an epoch, for any N and batch size B. No state: any (epoch, step) can be asked for at any time.
///
/// Training (share = false): global batch i is positions i N B … (i+1) N B - 1 of the epoch's order, worker k takes the
/// k-th B of them, literally. The last batch of an epoch is short when N B does not divide the samples; then a worker
/// may have fewer than B samples, or none. All workers have the same number of steps, ceil(samples / (N B)).
///
/// Evaluation (share = true): worker k takes the k-th of N nearly equal contiguous parts, in order, B at a time;
/// workers may differ in their number of steps by one.
class ShardedSampler {
 public:
  struct Options {
    std::int64_t samples = 0;
    int ranks = 1, rank = 0;
    std::int64_t batch = 1;  ///< B, per worker
    bool shuffle = true;     ///< else positions are sample numbers
    std::uint64_t seed = 0;
    bool share = false;
    std::int64_t begin = 0;  ///< training: positions before this one are left out
  };
  /// throws UsageError if a number makes no sense (batch < 1, rank not in 0 … ranks-1)
  explicit ShardedSampler(const Options& options);

  /// One worker's part of one step, as positions in the epoch's order.
  struct Part {
    std::int64_t first = 0, count = 0;                ///< of this worker; `first` <= samples
    std::int64_t global_first = 0, global_count = 0;  ///< of all workers together (the own part when share = true)
  };
  Part part(std::int64_t step) const;  ///< 0 <= step < steps_per_epoch()

  std::int64_t steps_per_epoch() const;

  /// order[position] = sample. Fisher-Yates from the key (seed, shuffle, epoch): the same on every rank, with no state.
  /// Cost: about 10 ns a sample.
  std::vector<std::uint32_t> order(std::int64_t epoch) const;

  const Options& options() const { return o_; }

 private:
  Options o_;
  std::int64_t begin_ = 0, end_ = 0;  // positions that concern this worker
};

}  // namespace laconic
