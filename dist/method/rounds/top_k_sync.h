#pragma once
#include <memory>
#include <span>
#include <vector>

#include "compress/choose/selector.h"
#include "compress/sparse_message.h"
#include "dist/collective/allgatherv.h"
#include "dist/method/bucket_sync.h"

namespace laconic::dist {

/// What a worker sends of the sums e of a message, by chunks of at most 4096 neighbours.
struct TopKWire {
  double density = 1;     ///< share of a chunk that is sent: k = max(1, ceil(density n)) of n
  bool two_bits = false;  ///< a value is its sign and one of two magnitudes of its chunk, else a float

  static constexpr std::int64_t kChunk = 4096;

  /// How many elements are sent of each chunk of a run of n.
  std::vector<std::size_t> counts(std::int64_t n) const;
  /// Bytes of a message about so many chosen elements of n, in so many chunks; an estimate.
  double expected_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const;
  /// No message is longer.
  std::size_t max_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const;

  /// Appends a message. values become what the receivers read.
  ///   indices : ascending, below n;   counts : how many of them are of each chunk
  ///
  ///     floats     the sparse message with Rice-coded indices (compress/sparse_message.h)
  ///     two bits   bytes : u32 | sparse message without values, so many bytes | low, high : f32 for each chunk |
  ///                sign (1: below zero) and level (1: high) of each value, lowest bits first, filled up to 4 bytes
  void encode(Slice<const std::uint32_t> indices, Slice<float> values, std::span<const std::size_t> counts,
              std::size_t n, compress::Bytes& payload) const;
  /// dense += factor times what a payload of that form says. Lengths and indices are checked first.
  /// throws DataError if it is none
  void decode_add(Slice<const std::byte> payload, std::span<const std::size_t> counts, float factor,
                  Slice<float> dense) const;
};

/// Each worker sends the largest elements of what it would have summed up, and keeps the rest for later:
///
///     e = BETA e + d;   S = the k largest |e| of each chunk;   q = what the message says of e[S];   e[S] -= q
///     D = sum over workers of q, in rank order                                                      allgatherv
///
/// d stands in the arena's gradients, and D afterwards in its place. A chunk is 4096 neighbours of one parameter (or of
/// those rows of it that travel as one message); its last one is shorter. e is kept in host memory.
///
/// Two bits: the chosen values of a chunk whose magnitude reaches their mean magnitude are sent as the mean of those
/// magnitudes, the others as the mean of theirs, with their signs. What that leaves out stays in e.
///
/// After a flush all ranks hold the same bits in D, whatever the overlap.
///   cost     (N-1) messages of about D n (7 + 2 bits) + 8 bytes a chunk are sent by each of N ranks
///   throws   Error naming the parameter if there is a NaN; CommError naming the rank whose message is none
///   source   SparseLoCo (Sarfi et al. 2025), Algorithm 1
class TopKSync final : public BucketSync {
 public:
  TopKSync(const ParameterArena& arena, Engine& engine, const Plan& plan, Update update, const TrainingFacts& facts,
           const TopKWire& wire, double beta);
  ~TopKSync() override { halt_what_is_under_way(); }

  double message_bytes() const override;

  /// "feedback": e
  void save(RankState& state) const override;
  /// throws DataError if there is none of this model
  void load(const StateDict& state) override;

  /// Bytes that a worker sends when all messages of the plan travel once.
  static double expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>& parameters,
                               const TopKWire& wire, int workers);

 private:
  struct Message {                    // of one bucket
    std::vector<std::size_t> counts;  // by chunk
    std::size_t chosen = 0;           // their sum
    compress::Bytes payload;
    Gathered all;
  };
  Operation exchange(std::size_t bucket) override;
  void arrived(std::size_t bucket) override;
  void choose(std::size_t bucket);

  const Update update_;
  const TopKWire wire_;
  const float beta_;
  const std::unique_ptr<compress::Selector> selector_;
  const Tensor e_;
  std::vector<Message> messages_;  // by bucket
};

}  // namespace laconic::dist
