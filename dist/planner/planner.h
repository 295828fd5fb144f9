#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/method/method.h"
#include "dist/planner/calibration.h"
#include "dist/planner/layer_times.h"
#include "dist/planner/receipt.h"

namespace laconic::dist {

/// The things that a plan of the planner's own may do to what is summed. Dense float32 always is allowed.
struct Allowed {
  bool sixteen_bits = false;             ///< every hop in bfloat16
  std::optional<std::string> bounded{};  ///< every hop through INCEPTIONN's codec with this bound: "2^-10", "rel:2^0"

  /// Reads "exact", or several of "16bit", "bounded:2^-E" and "bounded:rel:2^E" with commas.   throws UsageError
  static Allowed parse(const std::string& text, const std::string& where);
  /// Names the codecs that are allowed, "none" first.
  std::vector<std::string> codecs() const;
};

/// The facts that a plan is chosen by.
struct PlanningFacts {
  const std::vector<std::shared_ptr<Parameter>>& parameters;  ///< of an arena, in its order
  LayerTimes times{};                                         ///< of one rank's step without exchange
  Calibration group{};
  Overlap overlap = Overlap::forward;
  Allowed allowed{};
  bool codec_feedback = false;  ///< as in TrainingFacts, of codecs that lose something
};

/// The chosen plan.
struct Planned {
  Plan plan;
  Receipt receipt;
};

/// Predicts a step by the schedule alone (replay()): some 0.1 ms.   throws DataError if the times are of another model
double predict_step(const PlanningFacts& facts, const Plan& plan);

/// Chooses a plan for `sync` allreduce: sizes of buckets and of chunks, an allreduce for each bucket, and a codec among
/// those that are allowed. Candidates are compared by predict_step(); the best few of them are then simulated with the
/// real collectives (simulate_step), and the first of these wins.
///   cost     O(sizes x codecs) predictions, and one for each bucket and allreduce; some simulated steps
Planned make_best_plan(const PlanningFacts& facts);

}  // namespace laconic::dist
