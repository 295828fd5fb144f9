#pragma once
#include <string>

#include "dist/predict/predictor.h"
#include "dist/predict/receipt.h"

namespace laconic::dist {

/// The chosen plan.
struct Planned {
  Plan plan;
  Receipt receipt;
};

/// Chooses a plan for `sync` allreduce: sizes of buckets and of chunks, an allreduce for each bucket, and a codec among
/// those that are allowed; or one for a method of allowed.methods, which then takes the place of allreduce
/// (Plan::sync). Candidates are compared by their schedules (Predictor); the best few of them are then simulated with
/// the real collectives, and the first of these wins.
///   only     plans for this one of allowed.methods: a training that has it goes on with it
///   cost     O(sizes x codecs) predictions, and at most 100 for single buckets of each of two candidates; as many as
///            there are buckets, at most 400, for the receipt; some simulated steps
Planned make_best_plan(const PredictionFacts& facts, const std::string& only = "");

}  // namespace laconic::dist
