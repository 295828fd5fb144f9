#include "layers/loss.h"

#include <algorithm>

#include "core/ops/reshape.h"

namespace laconic {

Tensor predict(Module& model, const Tensor& sample) {
  const NoGrad no_grad;
  const EvalMode eval(model);
  const Tensor y = model(sample.value().view(sample.shape().batch(1)));
  return y.rank() >= 1 && y.dim(0) == 1 ? ops::squeeze(y, 0) : y;
}

double accuracy(const Tensor& logits, const Tensor& labels) { return top_k(1)(logits, labels); }

Metric top_k(int k) {
  return [k](const Tensor& logits, const Tensor& labels) {
    return static_cast<double>(ops::count_correct(logits, labels, k)) / static_cast<double>(logits.dim(0));
  };
}

double mean_absolute_error(const Tensor& prediction, const Tensor& target) {
  const NoGrad no_grad;
  require<ShapeError>(prediction.shape() == target.shape(), "mean_absolute_error: predictions are ", prediction.shape(),
                      ", targets ", target.shape(), ".");
  return ops::mean(ops::abs(prediction.value() - target)).item();
}

}  // namespace laconic
