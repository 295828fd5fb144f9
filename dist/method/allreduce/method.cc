#include "dist/method/allreduce/method.h"

#include "compress/codecs.h"
#include "dist/method/allreduce/allreduce_sync.h"

namespace laconic::dist {

void DenseAllreduce::check(const TrainingFacts& facts) const {
  const std::string by = allreduce_text(facts.plan), &codec = facts.plan.codec;
  if (compress::traits_of(codec).remembers && by == "doubling")
    refuse(
        "with doubling several ranks must come to the same bytes, and " + codec + " adds what each has lost by itself",
        "`codec`", "take `allreduce` ring");
  if (codec != "none" && by == "mpi")
    refuse("MPI's own allreduce adds floats, and knows no codec", "`codec`", "leave it out, or take `allreduce` ring");
}

std::unique_ptr<Strategy> DenseAllreduce::worker(WorkerSide side) const {
  const TrainingFacts& f = side.facts;
  return std::make_unique<AllreduceSync>(
      side.arena, side.engine, side.plan, std::move(side.update),
      AllreduceSync::Options{.mean = f.mean, .overlap = f.overlap, .seed = f.seed, .feedback = f.codec_feedback});
}

std::optional<double> DenseAllreduce::expected_bytes(const Plan& plan, const std::vector<std::shared_ptr<Parameter>>&,
                                                     const TrainingFacts& facts) const {
  return bytes_of_step(plan, facts.workers);
}

std::string DenseAllreduce::describe(const TrainingFacts& facts) const {
  return facts.plan_file.empty() ? "allreduce, " + allreduce_text(facts.plan) : "allreduce by " + facts.plan_file;
}

}  // namespace laconic::dist
