#pragma once
#include <string>

#include "apps/layer_times.h"
#include "dist/method/method.h"
#include "dist/virtual_time.h"

namespace laconic {

/// A training that each rank goes through in virtual time.
struct SimulatedTraining {
  std::string model;   ///< of the zoo
  int classes = 0;     ///< 0: the model's own
  LayerTimes times{};  ///< of its layers on one rank: how long the compute thread is at each
  dist::PlanOptions plan{};
  dist::Overlap overlap = dist::Overlap::forward;
};

/// One step in the steady state, on rank 0.
struct SimulatedStep {
  double seconds = 0;
  double compute_seconds = 0;  ///< layers and updates: a step without exchange
  double exposed_seconds = 0;  ///< the compute thread waited
  double bytes_sent = 0;
};

/// Times each layer at a rate of so many FLOP a second: two for each multiply-add, backward twice as many as forward,
/// and four for each parameter that is updated.   batch : samples, of a language model streams
LayerTimes layer_times_at(double flop_per_second, const std::string& model, int classes, std::int64_t batch);

/// Measures how long this machine takes to add floats and to run the codec, on one thread. Takes about 0.1 s.
dist::WorkCosts measure_work(const std::string& codec);

/// Whether one rank can stand for all: its plan's collectives treat all alike, and so do the links.
bool is_alike(const SimulatedTraining& training, const dist::VirtualNetwork& network);

/// Trains some steps with `sync` allreduce: the strategy, plan and collectives of a real training, over ghosts.
///   throws   DataError if `times` are not of this model
SimulatedStep simulate_step(const SimulatedTraining& training, const dist::VirtualNetwork& network);

}  // namespace laconic
