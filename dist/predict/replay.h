#pragma once
#include <string>
#include <vector>

#include "dist/method/method.h"

namespace laconic::dist {

/// One layer on the compute thread, in seconds a step. In the order of forward.
struct ReplayLayer {
  std::string name;
  double forward_seconds = 0;
  double backward_seconds = 0;
};

/// What is exchanged as one: a bucket of the plan. It is ready when the gradient of its first layer (in forward's
/// order) is, which comes last in backward, and that layer's next forward is the first to need it.
struct ReplayMessage {
  std::string name;
  int layer = 0;              ///< that first layer, by its place in forward
  double ready_seconds = 0;   ///< of the layer's backward, until it is handed over: less than all of it where the
                              ///< weight gradient comes before the data gradient
  double link_seconds = 0;    ///< the link is busy with it: bytes sent by this rank / rate
  double delay_seconds = 0;   ///< from the end of that to its arrival, while others may be sent: messages x latency
  double core_seconds = 0;    ///< the communication thread is busy with it: sums, codec, handing over
  double update_seconds = 0;  ///< on the compute thread, once it has arrived
  int chunks = 1;             ///< of rows: each is sent when its part of the weight gradient exists, and the next
                              ///< forward waits for it, updates and multiplies chunk by chunk
  int pieces = 1;             ///< in which each chunk may be overtaken
};

/// One step of training in the steady state, as a perfect engine would run it.
struct Replay {
  double step_seconds = 0;
  double compute_seconds = 0;   ///< layers and updates: a step without exchange
  double exchange_seconds = 0;  ///< the link's: a step without computing
  std::vector<double> waits{};  ///< by message: how long the compute thread stood still for it
};

/// The SCHEDULE's bound: the step time that per-layer times, bytes and the link's rate allow, whatever the engine. One
/// compute thread runs forward and backward layer by layer; one link sends one piece at a time, the most urgent that is
/// ready; then one communication thread works on it, in the order of the link; nothing else costs time. It is above
/// max(computing, exchanging) when the link must wait for a gradient, or a layer for its message: between a large
/// layer's backward and its next forward there may be nothing to send.
///   cost     O(steps x pieces x chunks), 0.1 to 1 ms: a few steps, until two are equal
///   throws   Error if a message names no layer, or a number is negative
Replay replay(const std::vector<ReplayLayer>& layers, const std::vector<ReplayMessage>& messages, Overlap overlap);

}  // namespace laconic::dist
