#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dist/predict/allowed.h"
#include "dist/predict/calibration.h"
#include "dist/predict/layer_times.h"
#include "dist/predict/replay.h"
#include "dist/predict/simulation.h"

namespace laconic::dist {

/// The facts that a step is predicted by, whatever its plan.
struct PredictionFacts {
  const std::vector<std::shared_ptr<Parameter>>& parameters;  ///< in the order of their arena
  LayerTimes times{};                                         ///< of one rank's step without exchange
  Calibration group{};
  Overlap overlap = Overlap::forward;
  Allowed allowed{};
  bool codec_feedback = false;  ///< as in TrainingFacts, of codecs that lose something
  double momentum = 0;          ///< as in TrainingFacts; methods that choose elements keep it for each worker
  /// No step is shorter, whatever the engine: a message in pieces takes its bytes and one latency, where the prediction
  /// has all hops of it one after the other.
  bool bound = false;
};

/// A step by a plan: what the compute thread does, what travels, and what comes of both.
struct Schedule {
  std::vector<ReplayLayer> layers{};      ///< as LayerTimes::layers; with a method's own work on the compute thread
  std::vector<ReplayMessage> messages{};  ///< in the order of the plan; chunks of one weight are one message
  std::vector<std::size_t> message_of{};  ///< by bucket of the plan
  Replay replay{};                        ///< of a step in which all messages travel
  double period = 1;                      ///< steps, of which one is so; in the others nothing travels

  /// The mean step of a period.   with, without : the step with messages, and the others
  double mean(double with, double without) const { return (with + (period - 1) * without) / period; }
  double mean_seconds() const { return mean(replay.step_seconds, replay.compute_seconds); }
};

/// The one predictor of a step's time. It goes two ways, and tests hold the first against the second:
///   schedule()   the layers and messages alone (replay()), in some 0.1 ms
///   simulate()   the training's own strategy and collectives in virtual time (simulate_step()), in some ms
class Predictor {
 public:
  /// `facts` must outlive this.   throws DataError if the times are of another model
  explicit Predictor(const PredictionFacts& facts);

  /// Takes a choice of elements to cost what the group's work says of gathered, selected and scattered ones. What has
  /// no formula (Allreduce::cost) costs nothing.   throws Error if the plan's method is not allowed
  Schedule schedule(const Plan& plan);
  /// Seconds of a step, by the real collectives; by the schedule where the group is too large for them. Where messages
  /// travel once in a period it is the period's mean.   throws as schedule()
  double simulate(const Plan& plan);
  /// The allreduces of ours with a formula, without groups, by which such a codec can pass.
  std::vector<std::string> allreduces(const std::string& codec) const;
  /// The one of them with which a bucket alone is summed soonest.
  std::string soonest(const Plan& plan, const Bucket& bucket, const std::vector<std::string>& names);

 private:
  struct Place {
    int layer = 0;
    double ready_seconds = 0, update_seconds = 0;
  };
  struct Coding {
    std::unique_ptr<const compress::Codec> codec;
    WorkCosts work{};
  };
  const Coding& coding(const std::string& codec);
  ReplayMessage message(const Bucket& bucket) const;
  void add_sum(ReplayMessage& message, const Bucket& bucket, const Coding& coding) const;
  void add_choice(ReplayMessage& message, ReplayLayer& layer, const Bucket& bucket, double density,
                  const WorkCosts& work) const;

  const PredictionFacts& facts_;
  std::vector<ReplayLayer> layers_;
  std::vector<Place> places_;  // by the parameter's place in the arena
  std::map<std::string, Coding> codings_;
};

/// One plan's step: Predictor::schedule(), Predictor::simulate().
double predict_step(const PredictionFacts& facts, const Plan& plan);
double simulate_plan(const PredictionFacts& facts, const Plan& plan);

}  // namespace laconic::dist
