#pragma once
#include <vector>

#include "dist/collective/alltoallv.h"
#include "dist/method/bucket_sync.h"

namespace laconic::dist {

/// Votes of signs. Each worker sends a bit for each element of its gradient; what most of them say is the sign that all
/// apply. Every worker counts the votes of one N-th of a bucket, and tells all others what came out:
///
///     bit[i] = g[i] < 0, in one N-th to each worker     alltoallv
///     majority of an N-th, to all                       allgatherv
///     g[i] = s or -s, and the ordinary update           s: mean over workers of the mean |g| of a parameter, or 1
///
/// Zero has no sign: on every other worker it counts as above, on the others as below, and in the next step the other
/// way round. So workers without a gradient hardly outvote those who have one. Where votes are even, the worker who
/// counts them has the say.
///
///     part, little-endian     offset 0            4 P
///                                    s : f32 P  | bits, lowest first     P: parameters of the bucket; none if s is 1
///
/// After a flush all ranks hold the same bits, if they began with the same, whatever the overlap.
///   cost     2 (N-1)/N n/8 bytes and (N-1) 4 P sent by each of N ranks for a bucket of n elements
///   source   signSGD with majority vote (Bernstein et al. 2018, 2019, Algorithm 1); settled: no server counts, but
///            everybody a part
///   throws   CommError if a rank is lost, or sends what is no part
class SignSgd final : public BucketSync {
 public:
  /// scaled : s is a mean, else 1
  SignSgd(WorkerSide side, bool scaled);
  ~SignSgd() override { halt_what_is_under_way(); }

  double message_bytes() const override;

 private:
  struct Vote {  // on one bucket
    std::vector<compress::Bytes> parts;  // by worker that counts them
    Gathered votes, majority;
    compress::Bytes counted;
    std::vector<float> scales;  // of the bucket's parameters
  };
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  /// Writes the signs of a bucket's gradients to zeroed bits, and their magnitudes to the vote's scales.
  void look_at_signs(std::size_t bucket, std::byte* bits);
  Task<> vote(Communicator& comm, std::size_t bucket);
  void count(std::size_t bucket, int rank);
  /// Takes the place of a bucket's gradients by what most said.
  void write_majority(std::size_t bucket, Slice<float> gradients) const;
  /// The bytes of bits of a bucket that a worker counts at the most.
  std::size_t most_counted(std::size_t bucket) const;
  std::size_t header(std::size_t b) const {
    return scaled_ ? sizeof(float) * static_cast<std::size_t>(bucket(b).count) : 0;
  }
  /// The bytes of a bucket's bits that worker r counts.
  Slice<const std::byte> range(Slice<const std::byte> bits, int r) const;
  /// f(i, first, n) for the i-th parameter of a bucket, whose n elements begin at element `first` of the bucket.
  template <class F>
  void for_parameters(std::size_t bucket, F f) const;

  const Update update_;
  const bool scaled_;
  std::vector<Vote> votes_;  // by bucket
};

}  // namespace laconic::dist
