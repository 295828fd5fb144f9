#include "dist/trainer/evaluation.h"

#include <algorithm>
#include <cmath>

#include "dist/collective/meeting.h"
#include "dist/trainer/setup.h"

namespace laconic {

void sum_over_workers(const dist::Worker& worker, const char* what, std::vector<double>& x) {
  worker.run(what, [&](dist::Communicator& comm) { return dist::sum_over_ranks(comm, slice(x)); });
}

KeptBuffers::KeptBuffers(const Module& model) {
  for (const auto& [name, tensor] : model.named_buffers()) {
    kept_.emplace_back(tensor, Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device()));
    kept_.back().second.copy_from(tensor);
  }
}

EvaluatedModel::EvaluatedModel(const Setup& s) : strategy_(*s.strategy) {
  strategy_.show_joint_model();
  if (s.worker.size == 1 || !s.is.joins) return;
  const Module& model = s.workload.model();
  own_.emplace(model);
  std::vector<Tensor> buffers;
  std::vector<double> sums;
  const double weight = s.now.samples.weight(s.worker.size);
  for (const auto& [name, tensor] : model.named_buffers()) {
    if (tensor.dtype() != DType::f32) continue;
    buffers.push_back(tensor);
    for (const float value : tensor.to_vector()) sums.push_back(weight * double{value});
  }
  if (buffers.empty()) return;
  sum_over_workers(s.worker, "mean of running statistics", sums);
  std::size_t next = 0;
  for (const Tensor& tensor : buffers) {
    std::vector<float> mean(static_cast<std::size_t>(tensor.elements()));
    for (float& m : mean) m = static_cast<float>(sums[next++] / s.worker.size);
    tensor.copy_from(Tensor::of(tensor.shape(), mean));
  }
}

EvaluatedModel::~EvaluatedModel() noexcept(false) {
  if (kept_) return;
  try {
    if (own_) own_->put_back();
    strategy_.hide_joint_model();
  } catch (...) {
    if (std::uncaught_exceptions() == errors_) throw;  // else the first error is the one to tell
  }
}

std::optional<EvalReport> evaluated(const Setup& s, bool at_the_end, const Stop& stop,
                                    const std::function<void(EvalReport&)>& seen) {
  // No worker waits for another before all have ended, so each may leave its share when it hears of a stop.
  bool left = false;
  const Stop leaves = [&] { return left = left || (stop && stop()); };
  Workload& workload = s.workload;
  const EvaluatedModel model(s);
  const std::optional<double> drift = s.strategy->drift();
  EvalSums sums = at_the_end ? workload.evaluate_at_the_end(leaves) : workload.evaluate(leaves);
  std::vector<double> all{sums.samples,    sums.loss,        sums.wrong_top1,
                          sums.wrong_top5, left ? 1.0 : 0.0, drift.value_or(0)};
  const std::vector<std::string> names = workload.metrics();
  const std::size_t first_metric = all.size();
  sums.metrics.resize(names.size());
  all.insert(all.end(), sums.metrics.begin(), sums.metrics.end());
  sum_over_workers(s.worker, "sum of the evaluation", all);
  if (all[4] > 0) return std::nullopt;
  RunInfo info;
  workload.describe(info);
  require<DataError>(all[0] > 0 || info.test_samples == 0, info.data,
                     ": nothing to evaluate by could be read (`data`). The warnings above say why.");
  const double n = std::max(1.0, all[0]);
  EvalReport report;
  report.samples = static_cast<std::int64_t>(all[0]);
  report.loss = all[1] / n;
  report.top1_error = 100 * all[2] / n;
  if (workload.measures_perplexity()) report.perplexity = std::exp(report.loss);
  if (workload.has_top5()) report.top5_error = 100 * all[3] / n;
  for (std::size_t i = 0; i < names.size(); ++i) report.metrics.emplace_back(names[i], all[first_metric + i] / n);
  if (drift) report.drift = all[5] / s.worker.size;
  seen(report);
  return report;
}

}  // namespace laconic
