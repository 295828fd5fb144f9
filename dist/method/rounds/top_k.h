#pragma once
#include <memory>

#include "compress/top_k_message.h"
#include "dist/method/exchange.h"

namespace laconic::dist {

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
