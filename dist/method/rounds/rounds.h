#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "compress/top_k_message.h"
#include "dist/method/exchange.h"

namespace laconic::dist {

/// What rounds go by (rounds_sync.cc).
struct RoundsRules {
  std::int64_t every = 8;       ///< H
  std::int64_t fragments = 1;   ///< P
  std::int64_t delay = 0;       ///< TAU, less than H
  double mix = 0;               ///< ALPHA, the share of its own values that a worker keeps
  double lr = 1, momentum = 0;  ///< of the outer model
  bool nesterov = false;
  std::int64_t dense_steps = 0;                ///< at the beginning: every step's gradients are joined
  std::optional<compress::TopKWire> chosen{};  ///< what is sent of d; nothing: all
  double feedback = 0;                         ///< BETA, by which what was not sent shrinks from round to round
  bool pairs = false;  ///< D is of two workers, who change from round to round; nothing may be chosen then
  double pull = 0;     ///< GAMMA: of the distance of x from its pair's mean so much is made up for in a round
};

/// A worker's half.   side.update : the worker's own, also of dense steps
std::unique_ptr<Strategy> make_rounds_worker(WorkerSide side, const RoundsRules& rules);

/// The other one of this rank's pair, at the end of the round that ends with this step: all ranks draw the same perfect
/// matching of N. Nothing for the one that is left over where N is odd.   O(N)
std::optional<int> partner_of(int rank, int N, std::uint64_t seed, std::int64_t step);

/// The exchange of pairs (pair_sync.cc).
std::unique_ptr<BucketSync> make_pair_sync(WorkerSide side, double pull);

/// Each worker sends the largest elements of what it would have summed up, and keeps the rest for later:
///
///     e = BETA e + d;   S = the k largest |e| of each chunk;   q = what the message says of e[S];   e[S] -= q
///     D = sum over workers of q, in rank order                                                      allgatherv
///
/// A chunk is 4096 neighbours of one parameter (or of
/// those rows of it that travel as one message); its last one is shorter.
///
/// Two bits: the chosen values of a chunk whose magnitude reaches their mean magnitude are sent as the mean of those
/// magnitudes, the others as the mean of theirs, with their signs. What that leaves out stays in e.
///
///   cost     (N-1) messages of about D n (7 + 2 bits) + 8 bytes a chunk are sent by each of N ranks
///   throws   Error naming the parameter if there is a NaN; CommError naming the rank whose message is none
///   source   SparseLoCo (Sarfi et al. 2025), Algorithm 1
struct TopK {
  compress::TopKWire wire{};
  double beta = 0;

  static ExchangeForm form(const TrainingFacts& facts);
  std::unique_ptr<Part> part(PartPlace place) const;
};

}  // namespace laconic::dist
