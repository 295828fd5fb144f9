#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dist/method/method.h"
#include "dist/predict/calibration.h"
#include "dist/predict/layer_times.h"
#include "dist/predict/receipt.h"

namespace laconic::dist {

/// A method with what was set of it, by names and texts of its settings.
struct MethodChoice {
  using Settings = std::vector<std::pair<std::string, std::string>>;
  MethodChoice(const std::string& name, Settings of_it) : method(dist::method(name, of_it)), settings(std::move(of_it)) {}

  std::shared_ptr<const Method> method;
  Settings settings;
  /// Returns how it would have a model cut into messages, among so many workers.
  PlanOptions options(int workers) const;
};

/// The things that a plan of the planner's own may do to what is summed. Dense float32 always is allowed.
struct Allowed {
  bool sixteen_bits = false;             ///< every hop in bfloat16
  std::optional<std::string> bounded{};  ///< every hop through INCEPTIONN's codec with this bound: "2^-10", "rel:2^0"
  /// Instead of `sync` allreduce: one that sends a choice of elements (Traits::chooses), or one that sends dense
  /// messages once in a period. Each at most once.
  std::vector<MethodChoice> methods{};

  /// Reads "exact", or several of "16bit", "bounded:2^-E", "bounded:rel:2^E", "sparse[:DENSITY]" (redsync) and
  /// "rounds[:STEPS]" with commas.   throws UsageError
  static Allowed parse(const std::string& text, const std::string& where);
  /// throws UsageError if one of the methods does not go with this training
  void check(const TrainingFacts& facts) const;
  /// Names the codecs that are allowed, "none" first.
  std::vector<std::string> codecs() const;
  /// Null if this method is not allowed, or is allreduce.
  const MethodChoice* find(const std::string& name) const;
};

/// The facts that a plan is chosen by.
struct PlanningFacts {
  const std::vector<std::shared_ptr<Parameter>>& parameters;  ///< of an arena, in its order
  LayerTimes times{};                                         ///< of one rank's step without exchange
  Calibration group{};
  Overlap overlap = Overlap::forward;
  Allowed allowed{};
  bool codec_feedback = false;  ///< as in TrainingFacts, of codecs that lose something
  double momentum = 0;          ///< likewise; methods that choose elements keep it for each worker
  std::string only{};           ///< plans for this one of allowed.methods: a training that has it goes on with it
};

/// The chosen plan.
struct Planned {
  Plan plan;
  Receipt receipt;
};

/// Predicts a step by the schedule alone (replay()): some 0.1 ms. Where the plan's method sends once in a period it is
/// the mean of one. A choice of elements is taken to cost what group.work says of gathered, selected and scattered ones.
/// throws DataError if the times are of another model, Error if the plan's method is not allowed
double predict_step(const PlanningFacts& facts, const Plan& plan);

/// Seconds of a step with this plan, as make_best_plan() compares the best ones: by the real collectives, unless the
/// group is too large for them.   throws as predict_step()
double simulate_plan(const PlanningFacts& facts, const Plan& plan);

/// Chooses a plan for `sync` allreduce: sizes of buckets and of chunks, an allreduce for each bucket, and a codec among
/// those that are allowed; or one for a method of allowed.methods, which then takes the place of allreduce
/// (Plan::sync). Candidates are compared as predict_step() predicts; the best few of them are then simulated with the
/// real collectives (simulate_step), and the first of these wins.
///   cost     O(sizes x codecs) predictions, and at most 100 for single buckets of each of two candidates; as many as
///            there are buckets, at most 400, for the receipt; some simulated steps
Planned make_best_plan(const PlanningFacts& facts);

}  // namespace laconic::dist
