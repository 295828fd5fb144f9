#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "dist/predict/calibration.h"
#include "dist/predict/layer_times.h"

namespace laconic::dist {

/// Tells why what travels how, for people and for logs.
struct Receipt {
  struct Line {
    std::string bucket;  ///< its name; of a weight in chunks all of them
    double bytes = 0;
    double ready_ms = 0, needed_ms = 0;  ///< since the step began, in the step's computing: the second in the next step
    std::string choice{}, runner_up{};   ///< algorithms
    double waits_ms = 0;                 ///< the compute thread stands still for it
    double behind_ms = 0;                ///< the time by which the runner-up makes the step longer
  };
  struct Candidate {
    std::string plan;  ///< in words: "butterfly, lazy:1MiB, ..."
    double step_ms = 0;
  };
  std::string group;                   ///< Calibration::to_string()
  double compute_ms = 0, step_ms = 0;  ///< without exchange, and with the chosen plan, predicted
  std::vector<Candidate> candidates;   ///< the best of each kind, the chosen one first
  std::vector<Line> lines;             ///< in the order of forward
  double search_ms = 0;                ///< comparing plans by prediction; simulations come on top
  int predictions = 0;                 ///< of a step, while they were compared
  std::string plan{};           ///< Plan::json() of the chosen one
  bool codec_feedback = false;  ///< what its codec loses is added later
  Calibration measured{};       ///< what it was chosen by
  LayerTimes layers{};          ///< of the slowest worker
  std::string sync = "allreduce";  ///< the method that was chosen with the plan
  std::vector<std::pair<std::string, std::string>> settings{};  ///< its own, names and texts

  std::string text() const;
  std::string json() const;
};

}  // namespace laconic::dist
