#pragma once
#include <vector>

#include "dist/method/method.h"
#include "dist/planner/layer_times.h"
#include "dist/virtual_time.h"

namespace laconic::dist {

/// A training with `sync` allreduce that each rank goes through in virtual time.
struct SimulatedTraining {
  std::vector<ParameterInfo> parameters{};  ///< in the order of the arena
  LayerTimes times{};                       ///< of one rank: how long the compute thread is at each layer
  Plan plan{};                              ///< for so many ranks as the network has
  Overlap overlap = Overlap::forward;
  bool codec_feedback = false;
};

/// One step in the steady state, on rank 0.
struct SimulatedStep {
  double seconds = 0;
  double compute_seconds = 0;  ///< layers and updates: a step without exchange
  double exposed_seconds = 0;  ///< the compute thread waited
  double bytes_sent = 0;
};

/// Whether one rank can stand for all (VirtualNetwork::mirrored): the plan's collectives treat all alike, and so do the
/// links.
bool is_alike(const Plan& plan, const VirtualNetwork& network);

/// Trains some steps: the strategy, plan and collectives of a real training, over ghosts.
///   throws   DataError if `times` are not of these parameters
SimulatedStep simulate_step(const SimulatedTraining& training, const VirtualNetwork& network);

}  // namespace laconic::dist
