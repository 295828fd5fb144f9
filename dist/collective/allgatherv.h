#pragma once
#include <vector>

#include "compress/bytes.h"
#include "dist/engine/communicator.h"

namespace laconic::dist {

/// What every rank gave to an allgatherv or an alltoallv, by rank.
class Gathered {
 public:
  /// `device`: where the parts are to lie; on another one than the CPU for collectives that say so.
  explicit Gathered(Device device = kCpu) : bytes_(device) {}
  Device device() const { return bytes_.device(); }
  int size() const { return static_cast<int>(parts_.size()); }
  /// What rank r gave, until the next operation into this object. Aligned to 4 bytes if all lengths are multiples
  /// of 4.
  Slice<const std::byte> operator[](int r) const {
    const Part& part = parts_.at(static_cast<std::size_t>(r));
    return bytes_.slice().sub(part.offset, part.size);
  }

  std::size_t capacity() const { return capacity_; }  ///< bytes that are kept for it

  /// For the collectives: makes room for N parts of at most `most_bytes`, and notes where in it a part lies.
  Slice<std::byte> reset(int N, std::size_t most_bytes);
  void note(int r, std::size_t offset, std::size_t size) { parts_[static_cast<std::size_t>(r)] = {offset, size}; }

 private:
  friend class Records;
  struct Part {
    std::size_t offset = 0, size = 0;
  };
  compress::Bytes bytes_;
  std::vector<Part> parts_;
  std::size_t capacity_ = 0;
};

/// Allgather of parts whose lengths differ and are known to their owners only: afterwards all[r] is what rank r gave,
/// on every rank. One exchange carries the lengths too; no rank may give more than `most_bytes`, which is the same
/// everywhere and sizes the buffers (N (most_bytes + 4) bytes in `all`). `mine` may be empty.
///
///   Messages that may be longer than 256 KiB are cut (messages_with_length in pieces.h).
///
///     message, little-endian      offset 0             4
///                                        n : u32       | part : n bytes         again for every part; never padded
///
///   A rank keeps its parts as they travel, one after the other in the order in which they came, so that every message
///   is a stretch of that memory and what comes is appended. Whose parts rank 0 holds, for N = 4:
///                     doubling: r^2^s     Bruck: from r + 2^s     ring: from r - 1
///            start    0                   0                       0
///            step 0   0 1                 0 1                     0 3
///            step 1   0 1 2 3             0 1 2 3                 0 3 2
///            step 2                                               0 3 2 1
///   cost     doubling, Bruck: ceil(lg N) alpha, ring: (N-1) alpha;  each + (N-1)(n + 4) beta
///            n bytes: mean of a part
///   instead  ring_allgather for floats of known lengths
///   source   Bruck et al. 1997; Thakur, Rabenseifner & Gropp 2005; RedSync 2.2 (sparse synchronisation)
///   throws   CommError if a rank is lost, or if a message is not the parts that it must be (then nothing is read
///            outside of it); UsageError if `mine` is longer than most_bytes, or most_bytes 4 GiB or more
Task<> allgatherv(Communicator& comm, Slice<const std::byte> mine, std::size_t most_bytes,
                  Gathered& all);  ///< doubling for powers of two, else Bruck
Task<> ring_allgatherv(Communicator& comm, Slice<const std::byte> mine, std::size_t most_bytes, Gathered& all);

/// Personalised exchange of parts whose lengths differ: rank r gives parts[d] to rank d; afterwards all[s] is what rank
/// s gave to this one. No part may be longer than `most_bytes`, which is the same everywhere and sizes the buffers
/// (N most_bytes bytes in `all`). Parts may be empty: every pair of ranks exchanges a message, so that none waits in
/// vain. `parts` must outlive the operation.
///
///   In step s rank r sends to r + s and receives from r - s (mod N); all receives are posted ahead, and every rank's
///   sends go to different ranks at a time.
///   cost     (N-1) alpha + (N-1) n beta                       n bytes: mean of a part
///   source   Thakur, Rabenseifner & Gropp 2005 (MPI_Alltoallv, pairwise)
///   throws   UsageError if a part is longer than most_bytes; CommError if a rank is lost, or sends more than that
Task<> alltoallv(Communicator& comm, const std::vector<compress::Bytes>& parts, std::size_t most_bytes, Gathered& all);

/// Before every part: its length.
inline constexpr std::size_t kPartHeader = sizeof(std::uint32_t);

/// Cuts a message into exactly `count` parts. Throws CommError ("rank 2 sent ...") if a length is above most_bytes, the
/// message ends inside of a part, or goes on after the last.
std::vector<Slice<const std::byte>> parts_of(Slice<const std::byte> message, int count, std::size_t most_bytes,
                                             int from);
/// Appends a part of less than 4 GiB to such a message, which lies on the CPU. Waits for a part that does not.
void append_part(compress::Bytes& message, Slice<const std::byte> part);

}  // namespace laconic::dist
