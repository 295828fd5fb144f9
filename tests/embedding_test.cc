// Rows by index: forward, the dense gradient against a slow sum, and indices from outside.
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "core/ops/reduce.h"
#include "core/ops/reshape.h"
#include "core/base/parallel.h"
#include "layers/layers.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

Tensor random_indices(const Shape& shape, std::uint32_t below, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::vector<std::int64_t> v(static_cast<std::size_t>(shape.elements()));
  for (std::int64_t& x : v) x = random.below(below);
  return Tensor::of(shape, v);
}

TEST(Embedding, TakesRowsAndAddsTheirGradients) {
  for (const Shape& shape : {Shape{7}, Shape{3, 4}, Shape{40, 50}}) {
    const std::int64_t n = shape.elements(), vocabulary = 9, dim = shape.rank() == 1 ? 1 : 37;
    Embedding layer({.vocabulary = 9, .dim = static_cast<int>(dim)});
    layer.initialize(3);
    const Tensor index = random_indices(shape, 9, 1);
    const std::vector<float> i = index.to_vector(), w = layer.weight()->value().to_vector();
    const Tensor y = layer(index);
    ASSERT_EQ(y.rank(), shape.rank() + 1);
    ASSERT_EQ(y.dim(-1), dim);
    const std::vector<float> got = y.to_vector();
    const Tensor dy = random_tensor(y.shape(), 2);
    const std::vector<float> up = dy.to_vector();
    std::vector<float> expected(static_cast<std::size_t>(vocabulary * dim));
    for (std::int64_t k = 0; k < n; ++k)
      for (std::int64_t j = 0; j < dim; ++j) {
        const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(i[static_cast<std::size_t>(k)]) * dim + j);
        ASSERT_EQ(got[static_cast<std::size_t>(k * dim + j)], w[at]);
        expected[at] += up[static_cast<std::size_t>(k * dim + j)];
      }
    with_upstream(y, dy).backward();
    EXPECT_EQ(layer.weight()->grad().to_vector(), expected);  // the same additions in the same order
    for (float& e : expected) e += e;
    with_upstream(layer(index), dy).backward();  // a second use adds; no longer one sum in order
    const std::vector<float> twice = layer.weight()->grad().to_vector();
    for (std::size_t k = 0; k < expected.size(); ++k) EXPECT_NEAR(twice[k], expected[k], 1e-3f);
  }
}

TEST(Embedding, GradientHasTheSameBitsForAnyNumberOfThreads) {
  const Tensor index = random_indices({70, 30}, 50, 1), dy = random_tensor({70, 30, 100}, 2);
  std::vector<std::vector<float>> gradients;
  for (int threads : {1, 2, 3}) {
    set_kernel_threads(threads);
    Embedding layer({.vocabulary = 50, .dim = 100});
    layer.initialize(1);
    with_upstream(layer(index), dy).backward();
    gradients.push_back(layer.weight()->grad().to_vector());
  }
  set_kernel_threads(1);
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_EQ(gradients[0], gradients[2]);
}

TEST(Embedding, ZeroesTheRowsThatNobodyUsed) {
  for (const Device device : with_cuda()) {
    Embedding layer({.vocabulary = 3, .dim = 2});
    ParameterArena arena(layer.parameters(), device);
    for (const std::int64_t chunk : {0, 2})
      for (std::int64_t used : {0, 2}) {
        layer.weight()->set_chunk_rows(chunk);
        arena.begin_step();
        arena.backward(ops::sum(layer(Tensor::of({1}, std::vector<std::int64_t>{used}, device))));
        std::vector<float> expected(6);
        expected[static_cast<std::size_t>(2 * used)] = expected[static_cast<std::size_t>(2 * used + 1)] = 1;
        EXPECT_EQ(layer.weight()->grad().to_vector(), expected);
      }
  }
}

TEST(Embedding, NamesTheIndexThatIsOutside) {
  Embedding layer({.vocabulary = 5, .dim = 2});
  for (std::int64_t bad : {std::int64_t{-1}, std::int64_t{5}, std::int64_t{1} << 40}) {
    const Tensor index = Tensor::of({2, 2}, std::vector<std::int64_t>{0, 4, bad, 1});
    expect_error<DataError>([&] { layer(index); }, {"index " + std::to_string(bad) + " at position 2", "[0, 5)"});
  }
  EXPECT_THROW(layer(Tensor::zeros({2})), ShapeError);
  EXPECT_THROW(Embedding({.vocabulary = 0, .dim = 2}), ShapeError);
  EXPECT_EQ(layer.parameters()[0]->info.role, Role::embedding);
}

struct TiedModel final : Module {
  TiedModel() {
    encoder = child<Embedding>("encoder", {.vocabulary = 7, .dim = 4});
    rnn = child<LSTM>("rnn", {.in = 4, .hidden = 4});
    decoder = child<Linear>("decoder", {.in = 4, .out = 7, .output = true, .weight = encoder->weight()});
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = (*rnn)((*encoder)(x));
    return (*decoder)(ops::reshape(y, {y.dim(0) * y.dim(1), y.dim(2)}));
  }
  std::shared_ptr<Embedding> encoder;
  std::shared_ptr<LSTM> rnn;
  std::shared_ptr<Linear> decoder;
};

TEST(TiedEmbedding, IsOneParameterReadyAfterBothUses) {
  TiedModel model;
  model.initialize(1);
  EXPECT_EQ(model.parameter_count(), 7 * 4 + 16 * (4 + 4 + 2) + 7);
  const auto& weight = model.encoder->weight();
  EXPECT_EQ(weight, model.decoder->weight());
  EXPECT_EQ(weight->info.name, "encoder.weight");
  EXPECT_EQ(weight->info.role, Role::embedding);
  EXPECT_TRUE(weight->info.output);

  ParameterArena arena(model.parameters());
  EXPECT_EQ(arena.parameters().back(), weight);  // ready last
  struct Listener final : ParameterListener {
    void gradient_ready(Parameter& p, Rows rows) override {
      EXPECT_EQ(rows.count, p.info.shape[0]);
      ready.push_back(p.info.name);
      gradients[p.info.name] = p.grad().to_vector();
    }
    void before_forward(Parameter&, Rows) override {}
    std::vector<std::string> ready;
    std::map<std::string, std::vector<float>> gradients;
  } listener;
  arena.set_listener(&listener);
  const Tensor x = random_indices({5, 3}, 7, 2);
  arena.begin_step();
  const Tensor logits = model(x);
  const Tensor dy = random_tensor(logits.shape(), 3);
  arena.backward(with_upstream(logits, dy));
  arena.finish_gradients();
  EXPECT_EQ(listener.ready, (std::vector<std::string>{"decoder.bias", "rnn.weight_hh_l0", "rnn.bias_ih_l0",
                                                      "rnn.bias_hh_l0", "rnn.weight_ih_l0", "encoder.weight"}));

  // What was announced is the gradient of both uses together: by finite differences of every element.
  const std::vector<float>& gradient = listener.gradients["encoder.weight"];
  float* w = weight->value().data<float>();
  const auto loss = [&] {
    NoGrad no_grad;
    const std::vector<float> y = model(x).to_vector(), d = dy.to_vector();
    return std::inner_product(y.begin(), y.end(), d.begin(), 0.0);
  };
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const float before = w[i];
    constexpr float kStep = 4e-3f;
    w[i] = before + kStep;
    const double up = loss();
    w[i] = before - kStep;
    const double down = loss();
    w[i] = before;
    EXPECT_NEAR(gradient[i], (up - down) / (2.0 * kStep), 2e-2) << i;
  }
}

TEST(TiedEmbedding, MustFit) {
  const Embedding encoder({.vocabulary = 7, .dim = 4});
  expect_error<ShapeError>([&] { Linear({.in = 5, .out = 7, .weight = encoder.weight()}); }, {"[7, 4], not [7, 5]"});
}

}  // namespace
}  // namespace laconic
