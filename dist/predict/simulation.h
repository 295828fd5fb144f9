#pragma once
#include <memory>
#include <vector>

#include "dist/method/method.h"
#include "dist/predict/layer_times.h"
#include "dist/engine/virtual_time.h"

namespace laconic::dist {

/// A training that each rank goes through in virtual time.
struct SimulatedTraining {
  std::vector<ParameterInfo> parameters{};  ///< in the order of the arena
  LayerTimes times{};                       ///< of one worker: how long the compute thread is at each layer
  Plan plan{};                              ///< for facts.workers
  std::shared_ptr<const Method> method{};   ///< with traits().on_ghosts; null: allreduce
  TrainingFacts facts{};                    ///< `workers` and `servers` are the network's ranks
  double straggling = 0;  ///< each step of a worker takes longer by a share, drawn exponentially with this mean
};

/// One step in the steady state, on rank 0, a worker; the mean of a period where steps differ (Traits::period).
struct SimulatedStep {
  double seconds = 0;
  double compute_seconds = 0;  ///< layers and updates: a step without exchange
  double exposed_seconds = 0;  ///< the compute thread waited
  double bytes_sent = 0;
};

/// Whether one rank can stand for all (VirtualNetwork::mirrored): the plan's collectives treat all alike, so do the
/// method and the links, and there is no server.
bool is_alike(const SimulatedTraining& training, const VirtualNetwork& network);

/// throws UsageError for a method that does not run on ghosts
void require_on_ghosts(const Method& method);

/// Trains some steps: the strategy, plan and collectives of a real training, over ghosts. Servers, where the method has
/// some, are the network's last ranks, or, without dedicated ones, halves of all.
///   throws   DataError if `times` are not of these parameters; UsageError for a method that does not run on ghosts
SimulatedStep simulate_step(const SimulatedTraining& training, const VirtualNetwork& network);

}  // namespace laconic::dist
