// Every operation's backward against central differences of its forward, in every layout; and on a CUDA device, if
// there is one, against the CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "core/function.h"
#include "core/ops/attention.h"
#include "core/ops/normalize.h"
#include "core/ops/conv2d.h"
#include "core/ops/dropout.h"
#include "core/ops/reshape.h"
#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "core/ops/linear.h"
#include "core/ops/losses.h"
#include "core/ops/recurrent.h"
#include "core/ops/reduce.h"
#include "core/base/random.h"
#include "core/raw.h"
#include "tests/on_both.h"

namespace laconic {
namespace {

using Op = std::function<Tensor(const std::vector<Tensor>&)>;

/// All values different by at least 0.05, so that a small change does not change which one is the largest.
Tensor spaced_tensor(const Shape& shape, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::vector<float> v(static_cast<std::size_t>(shape.elements()));
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = 0.05f * static_cast<float>(i) - 0.025f * static_cast<float>(v.size()) + 0.02f;
  random.shuffle(v);
  return Tensor::of(shape, v);
}

/// gradcheck(), and on a CUDA device, if there is one, the CPU's results and gradients.
void check(const char* name, const Op& op, const std::vector<Tensor>& inputs, double tolerance = 1e-2) {
  SCOPED_TRACE(name);
  try {
    gradcheck(op, inputs, {.tolerance = tolerance});
  } catch (const Error& e) {
    ADD_FAILURE() << e.what();
  }
  const bool blocked = std::any_of(inputs.begin(), inputs.end(),
                                   [](const Tensor& t) { return t.layout() == Layout::blocked16; });  // the CPU's alone
  if (!blocked) expect_same_on_cuda("cuda", op, inputs, 1e-4f);
}

/// Checks with the first input, and those of its shape, in each layout it can have.
void check_layouts(const char* name, const Op& op, const std::vector<Tensor>& inputs, double tolerance = 1e-2) {
  const Shape shape = inputs[0].shape();
  for (Layout layout : {Layout::plain, Layout::channels_last, Layout::blocked16}) {
    if (layout == Layout::blocked16 && shape[1] % 16) continue;
    SCOPED_TRACE(to_string(layout));
    std::vector<Tensor> laid = inputs;
    for (Tensor& t : laid)
      if (t.rank() == 4 && t.shape() == shape) t = raw::to_layout(t, layout);
    check(name, op, laid, tolerance);
  }
}

TEST(Gradient, Linear) {
  const std::vector<Tensor> inputs = {random_tensor({3, 5}, 1), random_tensor({4, 5}, 2), random_tensor({4}, 3)};
  check(
      "linear", [](const auto& x) { return ops::linear(x[0], x[1], x[2]); }, inputs);
  check(
      "linear with relu", [](const auto& x) { return ops::linear(x[0], x[1], x[2], true); }, inputs);
  check("linear without bias", [](const auto& x) { return ops::linear(x[0], x[1], {}); }, {inputs[0], inputs[1]});
  EXPECT_THROW(ops::linear(Tensor::zeros({2, 0}), Tensor::zeros({3, 0}), {}), ShapeError);
}

TEST(Gradient, Convolution) {
  struct Case {
    Shape x, w;
    ops::Conv2dOptions o;
  };
  for (const Case& c :
       {Case{{2, 1, 6, 5}, {3, 1, 3, 3}, {.pad = 1}},
        Case{{2, 3, 5, 5}, {4, 3, 3, 3}, {.stride = 2, .pad = 1, .relu = true}},
        Case{{1, 4, 5, 5}, {6, 2, 3, 3}, {.pad = 1, .groups = 2}}, Case{{1, 3, 6, 6}, {2, 3, 2, 2}, {.dilation = 2}},
        Case{{1, 16, 5, 4}, {16, 16, 1, 1}, {}}, Case{{1, 16, 4, 4}, {16, 16, 3, 3}, {.pad = 1}}}) {
    SCOPED_TRACE(concat(c.x, " * ", c.w));
    check_layouts(
        "conv2d", [&](const auto& x) { return ops::conv2d(x[0], x[1], x[2], c.o); },
        {random_tensor(c.x, 1), random_tensor(c.w, 2), random_tensor({c.w[0]}, 3)}, 2e-2);
  }
}

TEST(Gradient, TransposedConvolutionWithRelu) {
  const ops::Conv2dOptions o{.stride = 2, .pad = 1, .relu = true};
  const Tensor x = random_tensor({1, 2, 3, 3}, 5), w = random_tensor({2, 2, 3, 3}, 6);
  check_layouts(
      "conv_transpose2d", [&](const auto& t) { return ops::conv_transpose2d(t[0], t[1], o, 1); }, {x, w}, 2e-2);
  const Tensor plain = ops::conv_transpose2d(x, w, {.stride = 2, .pad = 1}, 1);
  EXPECT_EQ(ops::conv_transpose2d(x, w, o, 1).to_vector(), ops::relu(plain).to_vector());
}

TEST(Gradient, BatchNorm) {
  for (const Shape& shape : {Shape{3, 3, 2, 2}, Shape{2, 16, 2, 1}, Shape{5, 4}}) {
    const std::int64_t channels = shape[1];
    const Tensor gamma = random_tensor({channels}, 2), beta = random_tensor({channels}, 3), x = random_tensor(shape, 1);
    for (bool training : {true, false})
      for (bool relu : {true, false}) {
        SCOPED_TRACE(concat(shape, " training ", training, " relu ", relu));
        const auto norm = [&](const Tensor& in, const Tensor& g, const Tensor& b, const Tensor& residual) {
          const Tensor mean = Tensor::full({channels}, 0.1f, in.device()),
                       var = Tensor::full({channels}, 0.8f, in.device());
          return ops::batch_norm(in, g, b, mean, var, {.training = training, .relu = relu}, residual);
        };
        const Op alone = [&](const auto& t) { return norm(t[0], t[1], t[2], {}); };
        const Op added = [&](const auto& t) { return norm(t[0], t[1], t[2], t[3]); };
        if (shape.rank() == 4) {
          check_layouts("batch_norm", alone, {x, gamma, beta});
          check_layouts("batch_norm with residual", added, {x, gamma, beta, random_tensor(shape, 4)});
        } else {
          check("batch_norm", alone, {x, gamma, beta});
        }
      }
  }
}

/// The running mean is 0 still, and tells nothing of where the values lie.
TEST(BatchNorm, KeepsItsDigitsFarFromZero) {
  for (const Shape& shape : {Shape{16, 20, 3, 3}, Shape{16, 32, 2, 2}, Shape{64, 5}}) {
    const std::int64_t channels = shape[1], pixels = shape.elements() / shape[0] / channels;
    const Tensor noise = random_tensor(shape, 1), x = ops::add(noise, Tensor::full({}, 10000));
    const std::vector<float> values = x.to_vector();
    const auto at = [&](std::int64_t n, std::int64_t c, std::int64_t p) {
      return static_cast<std::size_t>((n * channels + c) * pixels + p);
    };
    const Tensor mean = Tensor::zeros({channels}), var = Tensor::full({channels}, 1);
    const std::vector<float> y = ops::batch_norm(x, Tensor::full({channels}, 1), Tensor::zeros({channels}), mean, var,
                                                 {.training = true, .relu = false}, {})
                                     .to_vector();
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto count = static_cast<double>(shape[0] * pixels);
      double sum = 0, square = 0;
      for (std::int64_t n = 0; n < shape[0]; ++n)
        for (std::int64_t p = 0; p < pixels; ++p) sum += values[at(n, c, p)];
      for (std::int64_t n = 0; n < shape[0]; ++n)
        for (std::int64_t p = 0; p < pixels; ++p) square += std::pow(values[at(n, c, p)] - sum / count, 2);
      const double scale = 1 / std::sqrt(square / count + 1e-5);
      for (std::int64_t n = 0; n < shape[0]; ++n)
        for (std::int64_t p = 0; p < pixels; ++p)
          ASSERT_NEAR(y[at(n, c, p)], scale * (values[at(n, c, p)] - sum / count), 5e-3) << shape << " channel " << c;
      EXPECT_NEAR(var.to_vector()[static_cast<std::size_t>(c)], 0.9 + 0.1 * square / (count - 1), 1e-3);
    }
  }
}

TEST(Gradient, BatchNormOfAValueThatIsUsedTwice) {  // dy comes as two parts
  check_layouts("diamond",
                [](const auto& t) {
                  const Device device = t[0].device();
                  const Tensor mean = Tensor::full({4}, 0, device), var = Tensor::full({4}, 1, device);
                  const Tensor y = ops::batch_norm(t[0], t[1], t[2], mean, var, {.relu = true});
                  return ops::add(ops::add(ops::tanh(y), ops::sigmoid(y)), y);
                },
                {random_tensor({2, 4, 2, 2}, 1), random_tensor({4}, 2), random_tensor({4}, 3)});
}

TEST(Gradient, Activations) {
  for (const Shape& shape : {Shape{2, 3, 3, 2}, Shape{1, 16, 2, 2}}) {
    check_layouts("relu", [](const auto& x) { return ops::relu(x[0]); }, {spaced_tensor(shape, 1)});
    check_layouts("tanh", [](const auto& x) { return ops::tanh(x[0]); }, {random_tensor(shape, 1)});
    check_layouts("sigmoid", [](const auto& x) { return ops::sigmoid(x[0]); }, {random_tensor(shape, 1)});
  }
}

TEST(Gradient, Pooling) {
  for (const Shape& shape : {Shape{2, 3, 6, 5}, Shape{1, 16, 5, 5}, Shape{1, 20, 4, 4}, Shape{2, 6, 4, 6}})
    for (const ops::PoolOptions& o : {ops::PoolOptions{.kernel = 2},
                                      {.kernel = 3, .stride = 2, .pad = 1},
                                      {.kernel = 2, .ceil_mode = true},
                                      {.kernel = 3, .stride = 1, .pad = 1, .count_include_pad = false}}) {
      SCOPED_TRACE(concat(shape, " kernel ", o.kernel));
      check_layouts("max_pool2d", [&](const auto& x) { return ops::max_pool2d(x[0], o); }, {spaced_tensor(shape, 1)});
      check_layouts("avg_pool2d", [&](const auto& x) { return ops::avg_pool2d(x[0], o); }, {random_tensor(shape, 1)});
    }
  for (const Shape& shape : {Shape{2, 3, 6, 5}, Shape{1, 32, 3, 3}})
    for (int out : {1, 2, 4}) {
      check_layouts("adaptive_avg_pool2d", [&](const auto& x) { return ops::adaptive_avg_pool2d(x[0], out, 3); },
                    {random_tensor(shape, 1)});
    }
}

TEST(Gradient, Dropout) {
  for (const Shape& shape : {Shape{2, 3, 3, 2}, Shape{1, 16, 3, 3}})
    check_layouts("dropout", [](const auto& x) { return ops::dropout(x[0], 0.4f, {.seed = 5, .layer = 2}); },
                  {random_tensor(shape, 1)});
}

TEST(Gradient, LocalResponseNorm) {
  for (const Shape& shape : {Shape{2, 3, 2, 2}, Shape{1, 16, 2, 2}, Shape{1, 32, 1, 2}})
    for (int size : {1, 3, 4, 5})
      for (float beta : {0.75f, 0.5f})
        check_layouts(
            "local_response_norm",
            [&](const auto& x) { return ops::local_response_norm(x[0], {.size = size, .alpha = 0.5f, .beta = beta}); },
            {random_tensor(shape, 1)});
}

TEST(Gradient, Embedding) {
  const Tensor index = Tensor::of({2, 3}, std::vector<std::int64_t>{0, 3, 0, 1, 3, 3});
  check("embedding", [&](const auto& t) { return ops::embedding(copied(index, t[0].device()), t[0]); },
        {random_tensor({5, 2}, 1)});
}

/// f(input part, other weights, initial h) of recurrences of several sizes, for so many gates.
void check_recurrent(const char* name, std::int64_t gates,
                     const std::function<Tensor(const Tensor&, const ops::RecurrentWeights&, const Tensor&)>& f) {
  for (const auto& [steps, batch, hidden] : {std::array<std::int64_t, 3>{1, 1, 3}, {4, 3, 3}, {3, 2, 17}}) {
    SCOPED_TRACE(concat(steps, " steps, batch ", batch, ", hidden ", hidden));
    const Tensor h = random_tensor({batch, hidden}, 6);
    const std::int64_t width = gates * hidden;
    check(name,
          [&](const auto& t) {
            return f(t[0], {t[1], t[2], t[3]}, copied(h, t[0].device()));
          },
          {random_tensor({steps, batch, width}, 1), random_tensor({width, hidden}, 3), random_tensor({width}, 4),
           random_tensor({width}, 5)});
  }
}

TEST(Gradient, Lstm) {
  check_recurrent("lstm", 4, [](const Tensor& input, const auto& w, const Tensor& h) {
    ops::LstmState state{h, copied(random_tensor(h.shape(), 7), h.device())};
    return ops::lstm(input, w, state);
  });
}

TEST(Gradient, Gru) {
  check_recurrent("gru", 3, [](const Tensor& input, const auto& w, Tensor h) { return ops::gru(input, w, h); });
}

TEST(Gradient, Rnn) {
  for (const auto f : {ops::Nonlinearity::tanh, ops::Nonlinearity::relu})
    check_recurrent("rnn", 1, [f](const Tensor& input, const auto& w, Tensor h) { return ops::rnn(input, w, h, f); });
}

TEST(Gradient, ARecurrenceMayUseTheMemoryOfItsInput) {
  const auto run = [](bool hand_over) {
    const auto leaf = std::make_shared<Leaf>();
    const auto weight = std::make_shared<Leaf>();
    const Tensor x = with_gradient(random_tensor({6, 5}, 1), leaf);
    Tensor input = ops::reshape(ops::linear(x, random_tensor({12, 5}, 2), {}), {3, 2, 12});
    const Tensor kept = hand_over ? Tensor() : input;
    ops::LstmState state{random_tensor({2, 3}, 3), random_tensor({2, 3}, 4)};
    const Tensor before = kept.defined() ? Tensor::of(kept.shape(), kept.to_vector()) : Tensor();
    const Tensor y = ops::lstm(
        std::move(input),
        {with_gradient(random_tensor({12, 3}, 5), weight), random_tensor({12}, 6), random_tensor({12}, 7)}, state);
    ops::sum(y).backward();
    if (kept.defined()) {
      EXPECT_EQ(kept.to_vector(), before.to_vector());
    }
    return std::vector{y.to_vector(), leaf->grad.to_vector(), weight->grad.to_vector()};
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Gradient, ShapesAndJoins) {
  for (const Shape& shape : {Shape{2, 3, 3, 2}, Shape{1, 16, 3, 3}}) {
    const Tensor x = random_tensor(shape, 1), other = random_tensor(shape, 2);
    check_layouts("flatten", [](const auto& t) { return ops::flatten(t[0]); }, {x});
    check_layouts("add", [](const auto& t) { return ops::add(t[0], t[1]); }, {x, other});
    check_layouts("x + x", [](const auto& t) { return ops::add(t[0], t[0]); }, {x});
    check_layouts("concat",
                  [](const auto& t) {
                    return ops::concat_channels({t[0], t[1], t[2]});
                  },
                  {x, random_tensor(shape.with(1, 5), 3), other});
    check_layouts("pad_shortcut", [&](const auto& t) { return ops::pad_shortcut(t[0], 2 * shape[1]); }, {x});
  }
  check_layouts("concat of blocks",
                [](const auto& t) {
                  return ops::concat_channels({t[0], t[1]});
                },
                {random_tensor({2, 16, 2, 2}, 1), random_tensor({2, 16, 2, 2}, 2)});
  check("multiply", [](const auto& t) { return ops::multiply(t[0], t[1]); },
        {random_tensor({2, 3}, 1), random_tensor({2, 3}, 2)});
  check("reshape", [](const auto& t) { return ops::reshape(t[0], {6}); }, {random_tensor({2, 3}, 1)});
  check("concat [N, C]", [](const auto& t) { return ops::concat_channels(t); },
        {random_tensor({2, 3}, 1), random_tensor({2, 5}, 2)});
}

TEST(Gradient, ArithmeticOfImages) {
  const Tensor x = spaced_tensor({2, 16, 2, 3}, 1);
  check_layouts("x y + z", [](const auto& t) { return t[0] * t[1] + t[2]; },
                {random_tensor({2, 16, 2, 3}, 1), random_tensor({2, 16, 2, 3}, 2), random_tensor({16, 1, 1}, 3)});
  check_layouts("gelu", [](const auto& t) { return gelu(t[0]); }, {x});
  check_layouts("gelu_tanh", [](const auto& t) { return gelu_tanh(t[0]); }, {x});
  check_layouts("max", [](const auto& t) { return max(t[0], 1); }, {x});
  check_layouts("mean", [](const auto& t) { return mean(t[0], {2, 3}); }, {x});
  check_layouts("permute", [](const auto& t) { return permute(t[0], {0, 2, 3, 1}); }, {x});
  check_layouts("where", [](const auto& t) { return where(t[0] > 0.0f, t[0] * 2.0f, t[1]); },
                {x, random_tensor({2, 16, 2, 3}, 2)});
}

TEST(Gradient, Attention) {
  for (const float p : {0.0f, 0.4f})
    for (const auto& [shape, heads] : {std::pair{Shape{2, 5, 18}, 2}, {Shape{1, 18, 12}, 1}, {Shape{1, 1, 6}, 2}})
      check("causal_attention",
            [heads = heads, p](const auto& t) {
              return ops::causal_attention(t[0], heads, p, {.seed = 3, .layer = 2, .step = 1, .first_sample = 4});
            },
            {random_tensor(shape, 1)});
}

TEST(Gradient, NormalisationOfVectors) {
  for (const Shape& shape : {Shape{3, 5}, Shape{2, 3, 37}}) {
    const Shape dim{shape[shape.rank() - 1]};
    const Tensor x = random_tensor(shape, 1), gamma = random_tensor(dim, 2), beta = random_tensor(dim, 3);
    check("layer_norm", [](const auto& t) { return ops::layer_norm(t[0], t[1], t[2]); }, {x, gamma, beta});
    check("layer_norm", [](const auto& t) { return ops::layer_norm(t[0], t[1], {}); }, {x, gamma});
    EXPECT_EQ(ops::layer_norm(x, gamma, {}).to_vector(),
              ops::layer_norm(x, gamma, Tensor::zeros(gamma.shape())).to_vector());
    check("rms_norm", [](const auto& t) { return ops::rms_norm(t[0], t[1]); }, {x, gamma});
  }
  const Tensor image = random_tensor({2, 16, 2, 3}, 1);
  check_layouts("layer_norm of images", [](const auto& t) { return ops::layer_norm(t[0], t[1], t[2]); },
                {image, random_tensor({3}, 2), random_tensor({3}, 3)});
}

TEST(Gradient, LossesAndSums) {
  const Tensor labels = Tensor::of({3}, std::vector<std::int64_t>{0, 3, 1});
  for (float smoothing : {0.0f, 0.2f, 1.0f})
    check("cross_entropy",
          [&](const auto& x) { return ops::cross_entropy(x[0], copied(labels, x[0].device()), smoothing); },
          {random_tensor({3, 4}, 1)});
  const Tensor a = random_tensor({2, 3, 2, 2}, 1), b = random_tensor({2, 3, 2, 2}, 2);
  check_layouts("bce_with_logits",
                [&](const auto& x) { return bce_with_logits(x[0], copied(sigmoid(b), x[0].device())); }, {a});
  check_layouts("mse", [](const auto& x) { return ops::mse(x[0], x[1]); }, {a, b});
  check_layouts("sum", [](const auto& x) { return ops::sum(x[0]); }, {a});
  check_layouts("mean", [](const auto& x) { return ops::mean(x[0]); }, {a});
}

}  // namespace
}  // namespace laconic
