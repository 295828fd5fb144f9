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
  std::shared_ptr<const Method> sparse{};  ///< redsync, instead of sums, with the density that was asked for; or null

  /// Reads "exact", or several of "16bit", "bounded:2^-E", "bounded:rel:2^E", "sparse" and "sparse:DENSITY" with
  /// commas.   throws UsageError
  static Allowed parse(const std::string& text, const std::string& where);
  /// throws UsageError if `sparse` does not go with this training
  void check(const TrainingFacts& facts) const;
  /// Names the codecs that are allowed, "none" first.
  std::vector<std::string> codecs() const;
  /// Returns how `sparse` would have a model cut into messages, among so many workers. It must not be null.
  PlanOptions sparse_options(int workers) const;
};

/// The facts that a plan is chosen by.
struct PlanningFacts {
  const std::vector<std::shared_ptr<Parameter>>& parameters;  ///< of an arena, in its order
  LayerTimes times{};                                         ///< of one rank's step without exchange
  Calibration group{};
  Overlap overlap = Overlap::forward;
  Allowed allowed{};
  bool codec_feedback = false;  ///< as in TrainingFacts, of codecs that lose something
  double momentum = 0;          ///< likewise; sparse plans keep it for each worker
  bool sparse_alone = false;    ///< only plans for allowed.sparse: a training that has it goes on with it
};

/// The chosen plan.
struct Planned {
  Plan plan;
  Receipt receipt;
};

/// Predicts a step by the schedule alone (replay()): some 0.1 ms. A sparse plan is taken to be for allowed.sparse, and
/// its work to cost what group.work says of gathered, selected and scattered elements.
/// throws DataError if the times are of another model
double predict_step(const PlanningFacts& facts, const Plan& plan);

/// Chooses a plan for `sync` allreduce: sizes of buckets and of chunks, an allreduce for each bucket, and a codec among
/// those that are allowed; or one for allowed.sparse, which then takes the place of allreduce (Plan::sparse).
/// Candidates are compared by predict_step(); the best few of them are then simulated with the real collectives
/// (simulate_step), and the first of these wins.
///   cost     O(sizes x codecs) predictions, and at most 100 for single buckets of each of two candidates; as many as
///            there are buckets, at most 400, for the receipt; some simulated steps
Planned make_best_plan(const PlanningFacts& facts);

}  // namespace laconic::dist
