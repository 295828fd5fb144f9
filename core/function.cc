#include "core/function.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/ops/functions.h"
#include "core/ops/reduce.h"
#include "core/base/random.h"
#include "core/raw.h"

namespace laconic {

void require_gradients(const std::vector<Tensor>& gradients, const std::vector<Shape>& inputs) {
  require<ShapeError>(gradients.size() == inputs.size(), "function: backward gave ", gradients.size(),
                      " gradients for ", inputs.size(), " inputs.");
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require<ShapeError>(!gradients[i].defined() || gradients[i].shape() == inputs[i], "function: backward gave ",
                        gradients[i].defined() ? gradients[i].shape() : Shape{}, " as the gradient of input ", i,
                        ", which is ", inputs[i], ".");
}

void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f, const std::vector<Tensor>& inputs,
               const GradcheckOptions& o) {
  std::vector<std::shared_ptr<Leaf>> leaves;
  std::vector<Tensor> x;
  for (const Tensor& t : inputs) {
    leaves.push_back(std::make_shared<Leaf>());
    x.push_back(with_gradient(t.value(), leaves.back()));
  }
  const Tensor y = f(x);
  require<Error>(y.node() != nullptr, "gradcheck: the result has no history. Were its inputs used?");
  Random random(0, Purpose::test);
  std::vector<float> upstream(static_cast<std::size_t>(y.elements()));
  for (float& u : upstream) u = random.uniform(-1, 1);
  const auto loss_of = [&](const Tensor& result) {
    const std::vector<float> values = result.to_vector();
    return std::inner_product(values.begin(), values.end(), upstream.begin(), 0.0);
  };
  sum(y * Tensor::of(y.shape(), upstream, y.device())).backward();

  const NoGrad no_grad;
  const double here = loss_of(y);
  std::int64_t checked = 0, kinks = 0;
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    require<Error>(leaves[k]->grad.defined(), "gradcheck: input ", k, " got no gradient.");
    const std::vector<float> gradient = leaves[k]->grad.to_vector(), values = inputs[k].to_vector();
    double largest = 0.05;
    for (const float g : gradient) largest = std::max<double>(largest, std::abs(g));
    const auto loss_at = [&](std::size_t i, float change) {
      std::vector<float> moved = values;
      moved[i] += change;
      std::vector<Tensor> at = inputs;
      at[k] = raw::to_layout(Tensor::of(inputs[k].shape(), moved, inputs[k].device()), inputs[k].layout());
      return loss_of(f(at));
    };
    for (std::size_t i = 0; i < gradient.size(); ++i, ++checked) {
      const double up = loss_at(i, o.step), down = loss_at(i, -o.step), expected = (up - down) / (2.0 * o.step);
      if (std::abs((up - here) - (here - down)) / o.step > 0.1 * largest) {
        ++kinks;
        continue;
      }
      require<Error>(std::abs(gradient[i] - expected) <= o.tolerance * largest, "gradcheck: the gradient of input ", k,
                     " at element ", i, " is ", gradient[i], ", but differences of the forward pass give ", expected,
                     ".");
    }
  }
  require<Error>(static_cast<double>(kinks) <= o.most_kinks * static_cast<double>(checked), "gradcheck: ", kinks,
                 " of ", checked, " elements lie at kinks; give inputs that do not.");
}

}  // namespace laconic
