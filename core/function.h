#pragma once
#include <concepts>
#include <string>
#include <utility>
#include <vector>

#include "core/autograd.h"

namespace laconic {

/// An operation with a derivative of one's own: a struct with a forward and a backward. What backward needs, forward
/// keeps in members. Neither is recorded, so both may call any operation. With bf16 on a CUDA device x and dy may hold
/// bfloat16 (core/precision.h), which all operations take.
///
///   struct Swish {
///     Tensor x;
///     Tensor forward(const Tensor& in) { return x = in, x * sigmoid(x); }
///     Tensor backward(const Tensor& dy) { return dy * (sigmoid(x) * (1.0f + x * (1.0f - sigmoid(x)))); }
///   };
///   Tensor y = recorded(Swish{}, x);
///
/// With several inputs backward returns a std::vector<Tensor> of as many gradients; an undefined one is none.
template <class F, class... Inputs>
concept Differentiable = requires(F f, const Tensor& t, const Inputs&... x) {
  { f.forward(x...) } -> std::convertible_to<Tensor>;
  f.backward(t);
};

/// Throws ShapeError unless there is a gradient for each input, of its shape. For recorded().
void require_gradients(const std::vector<Tensor>& gradients, const std::vector<Shape>& inputs);

/// f.forward(x …), recorded: backward goes through f.backward. `f` is moved and lives as long as the graph does.
/// Throws what f throws, and ShapeError in backward if a gradient has not its input's shape.
template <class F, class... Inputs>
requires Differentiable<F, Inputs...> &&(std::same_as<Inputs, Tensor>&&...)Tensor recorded(F f, const Inputs&... x) {
  const auto own = std::make_shared<F>(std::move(f));
  Tensor y;
  {
    const NoGrad no_grad;
    y = own->forward(x.value()...).value();
  }
  return record("function", y, std::vector<Tensor>{x...},
                [own, shapes = std::vector<Shape>{x.shape()...}](const Tensor& dy, Grads& grads) {
                  std::vector<Tensor> gradients;
                  if constexpr (std::convertible_to<decltype(own->backward(dy)), Tensor>)
                    gradients = {own->backward(dy)};
                  else
                    gradients = own->backward(dy);
                  require_gradients(gradients, shapes);
                  for (std::size_t i = 0; i < shapes.size(); ++i)
                    if (grads.wants(static_cast<int>(i)) && gradients[i].defined())
                      grads.put(static_cast<int>(i), gradients[i]);
                });
}

struct GradcheckOptions {
  double tolerance = 1e-2;  ///< the share of an input's largest gradient
  float step = 4e-3f;       ///< e below
  /// At most this share of elements may lie at a kink, where the differences on both sides disagree; they prove
  /// nothing.
  double most_kinks = 0.1;
};

/// Compares f's gradients with central differences: dL/dx[i] = (L(x + e) - L(x - e)) / 2e for every element of every
/// input, with L = sum of f(x) times fixed random numbers. Inputs are float32, and best of about 1. Costs two calls of
/// f for each element. Throws Error that names the first input and element where they differ, with both numbers.
void gradcheck(const std::function<Tensor(const std::vector<Tensor>&)>& f, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options = {});

}  // namespace laconic
