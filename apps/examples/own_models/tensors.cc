// Tensors, gradients, and an operation with a derivative of its own: the first steps of docs/tutorial.md.
#include <laconic/layers/layers.h>

#include <cstdio>

using namespace laconic;

struct Cube {
  Tensor x;
  Tensor forward(const Tensor& in) { return x = in, x * x * x; }
  Tensor backward(const Tensor& dy) { return dy * 3.0f * x * x; }
};

int main() {
  const Tensor x = Tensor::of({2, 3}, {1, 2, 3, 4, 5, 6}), row = Tensor::of({3}, {10, 20, 30});
  const Tensor y = x + row;                                               // broadcasts: [2, 3] and [3]
  std::printf("%g\n", max(mean(y, {0})).item());                          // 34.5
  const Tensor chances = softmax(matmul(x, transpose(x, 0, 1)) / 10.0f);  // [2, 2], rows add up to 1
  std::printf("%.4f\n", select(chances, 0, 1).to_vector()[1]);            // 0.9890

  const auto leaf = std::make_shared<Leaf>();  // where a gradient is collected
  const Tensor w = with_gradient(Tensor::of({3}, {1, -1, 2}), leaf);
  const Tensor loss = mean(pow(matmul(x, w) - Tensor::of({2}, {6, 10}), 2));
  loss.backward();
  std::printf("%g, %g\n", loss.item(), leaf->grad.to_vector()[0]);  // 1, 3

  gradcheck([](const auto& in) { return recorded(Cube{}, in[0]); }, {x / 6.0f});
  std::printf("the derivative of Cube is right\n");
}
