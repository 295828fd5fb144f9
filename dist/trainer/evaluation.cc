#include "dist/trainer/evaluation.h"

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

}  // namespace laconic
