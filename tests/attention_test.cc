// Causal attention against its formula in double, and what its bits do not depend on.
#include "core/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/base/parallel.h"
#include "layers/layers.h"
#include "tests/each_vector.h"
#include "tests/error_of.h"
#include "tests/on_both.h"

namespace laconic {
namespace {

using Doubles = std::vector<double>;

/// What each probability is multiplied by, [B, heads, T, T'].
std::vector<float> factors_of(std::int64_t batch, std::int64_t heads, std::int64_t steps, float p,
                              const ops::DropoutKey& key) {
  return ops::dropout(Tensor::full({batch, heads, steps, (steps + 63) / 64 * 64}, 1), p, key).to_vector();
}

struct Attended {
  Tensor y, dqkv;
};

/// The formula, number by number. dqkv is that of the sum of dy y.
Attended reference(const Tensor& qkv, int heads, const Tensor& dy, float p = 0, const ops::DropoutKey& key = {}) {
  const std::int64_t batch = qkv.dim(0), steps = qkv.dim(1), dim = qkv.dim(2) / 3, width = dim / heads;
  const std::vector<float> x = qkv.to_vector(), g = dy.to_vector(), factors = factors_of(batch, heads, steps, p, key);
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  std::vector<float> y(g.size()), dx(x.size());
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t h = 0; h < heads; ++h) {
      const auto at = [&](int which, std::int64_t t, std::int64_t d) {
        return static_cast<std::size_t>((b * steps + t) * 3 * dim + which * dim + h * width + d);
      };
      const auto out = [&](std::int64_t t, std::int64_t d) {
        return static_cast<std::size_t>((b * steps + t) * dim + h * width + d);
      };
      Doubles dk(static_cast<std::size_t>(steps * width)), dv(dk.size());
      for (std::int64_t i = 0; i < steps; ++i) {
        const auto n = static_cast<std::size_t>(i + 1);
        Doubles probability(n), dropped(n), of_dropped(n), dq(static_cast<std::size_t>(width));
        double sum = 0, inner = 0;
        for (std::size_t j = 0; j < n; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < width; ++d)
            score += static_cast<double>(x[at(0, i, d)]) * x[at(1, static_cast<std::int64_t>(j), d)];
          sum += probability[j] = std::exp(scale * score);
        }
        for (std::size_t j = 0; j < n; ++j) {
          const auto t = static_cast<std::int64_t>(j);
          probability[j] /= sum;
          const double f =
              factors[static_cast<std::size_t>(((b * heads + h) * steps + i) * ((steps + 63) / 64 * 64)) + j];
          dropped[j] = f * probability[j];
          for (std::int64_t d = 0; d < width; ++d) {
            of_dropped[j] += f * g[out(i, d)] * x[at(2, t, d)];
            dv[static_cast<std::size_t>(t * width + d)] += dropped[j] * g[out(i, d)];
          }
          inner += probability[j] * of_dropped[j];
        }
        for (std::int64_t d = 0; d < width; ++d) {
          double value = 0;
          for (std::size_t j = 0; j < n; ++j) value += dropped[j] * x[at(2, static_cast<std::int64_t>(j), d)];
          y[out(i, d)] = static_cast<float>(value);
        }
        for (std::size_t j = 0; j < n; ++j) {
          const auto t = static_cast<std::int64_t>(j);
          const double ds = scale * probability[j] * (of_dropped[j] - inner);
          for (std::int64_t d = 0; d < width; ++d) {
            dq[static_cast<std::size_t>(d)] += ds * x[at(1, t, d)];
            dk[static_cast<std::size_t>(t * width + d)] += ds * x[at(0, i, d)];
          }
        }
        for (std::int64_t d = 0; d < width; ++d) dx[at(0, i, d)] = static_cast<float>(dq[static_cast<std::size_t>(d)]);
      }
      for (std::int64_t t = 0; t < steps; ++t)
        for (std::int64_t d = 0; d < width; ++d) {
          dx[at(1, t, d)] = static_cast<float>(dk[static_cast<std::size_t>(t * width + d)]);
          dx[at(2, t, d)] = static_cast<float>(dv[static_cast<std::size_t>(t * width + d)]);
        }
    }
  return {Tensor::of(dy.shape(), y), Tensor::of(qkv.shape(), dx)};
}

Attended attend(const Tensor& qkv, int heads, const Tensor& dy, float p = 0, const ops::DropoutKey& key = {}) {
  const auto leaf = std::make_shared<Leaf>();
  const Tensor y = ops::causal_attention(with_gradient(qkv, leaf), heads, p, key);
  with_upstream(y, dy).backward();
  return {y.value(), leaf->grad};
}

struct Sizes {
  std::int64_t batch, steps;
  int heads;
  std::int64_t width;
};
/// Around the blocks' sizes: 16 queries, 64 by 64 in backward, 256 keys in forward.
const Sizes kSizes[] = {{2, 1, 1, 16},  {1, 2, 3, 32},   {2, 7, 2, 5},    {1, 16, 4, 64},
                        {2, 17, 1, 24}, {1, 48, 5, 16},  {1, 63, 6, 8},   {1, 64, 2, 32},
                        {1, 65, 3, 33}, {1, 130, 2, 64}, {1, 273, 1, 16}, {1, 529, 1, 4}};

TEST(Attention, IsTheFormula) {
  for (const Sizes& s : kSizes)
    for (const float p : {0.0f, 0.3f}) {
      SCOPED_TRACE(concat(s.batch, " x ", s.steps, ", ", s.heads, " heads of ", s.width, ", dropout ", p));
      const std::int64_t dim = s.heads * s.width;
      const Tensor qkv = random_tensor({s.batch, s.steps, 3 * dim}, 1), dy = random_tensor({s.batch, s.steps, dim}, 2);
      const ops::DropoutKey key{.seed = 5, .layer = 3, .step = 7, .first_sample = 11};
      const Attended expected = reference(qkv, s.heads, dy, p, key);
      with_each_vector([&] {
        const Attended got = attend(qkv, s.heads, dy, p, key);
        expect_close(got.y, expected.y, 5e-6f, "y");
        expect_close(got.dqkv, expected.dqkv, 1e-5f, "dqkv");
      });
    }
}

TEST(Attention, OfLargeScoresIsTheLargest) {
  const Tensor qkv = random_tensor({1, 70, 48}, 1) * 8.0f, dy = random_tensor({1, 70, 16}, 2);
  const Attended expected = reference(qkv, 1, dy), got = attend(qkv, 1, dy);
  expect_close(got.y, expected.y, 1e-3f, "y");
  expect_close(got.dqkv, expected.dqkv, 5e-3f, "dqkv");
}

TEST(Attention, LooksAtNothingThatComesLater) {
  std::vector<float> x = random_tensor({1, 40, 24}, 1).to_vector();
  const std::vector<float> before = ops::causal_attention(Tensor::of({1, 40, 24}, x), 2).to_vector();
  for (std::size_t i = 20 * 24; i < x.size(); ++i) x[i] = 30 - x[i];
  const std::vector<float> after = ops::causal_attention(Tensor::of({1, 40, 24}, x), 2).to_vector();
  EXPECT_TRUE(std::equal(before.begin(), before.begin() + 20 * 8, after.begin()));
  EXPECT_FALSE(std::equal(before.begin() + 20 * 8, before.begin() + 21 * 8, after.begin() + 20 * 8));
}

TEST(Attention, DoesNotDependOnThreads) {
  const Tensor qkv = random_tensor({3, 90, 96}, 1), dy = random_tensor({3, 90, 32}, 2);
  const auto run = [&] {
    const Attended a = attend(qkv, 2, dy, 0.2f, {.seed = 1});
    return std::pair{a.y.to_vector(), a.dqkv.to_vector()};
  };
  const auto one = run();
  set_kernel_threads(4);
  const auto four = run();
  set_kernel_threads(1);
  EXPECT_EQ(one, four);
}

TEST(Attention, DropoutDoesNotDependOnHowWorkersShareTheBatch) {
  const Tensor qkv = random_tensor({4, 33, 24}, 1);
  ops::DropoutKey key{.seed = 5, .layer = 3, .step = 7, .first_sample = 8};
  const std::vector<float> whole = ops::causal_attention(qkv, 2, 0.4f, key).to_vector();
  key.first_sample += 2;
  const std::vector<float> half = ops::causal_attention(qkv.rows(2, 2), 2, 0.4f, key).to_vector();
  EXPECT_EQ(half, std::vector<float>(whole.end() - static_cast<std::ptrdiff_t>(half.size()), whole.end()));
  key.step += 1;
  EXPECT_NE(ops::causal_attention(qkv.rows(2, 2), 2, 0.4f, key).to_vector(), half);
}

TEST(Attention, DropoutKeepsTheMean) {
  std::vector<float> x(8 * 64 * 3 * 8);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 24 >= 16 ? 1 : 0;  // values of 1, probabilities of one size
  const std::vector<float> y = ops::causal_attention(Tensor::of({8, 64, 24}, x), 2, 0.5f, {.seed = 9}).to_vector();
  double sum = 0, largest = 0;
  for (const float v : y) sum += v, largest = std::max<double>(largest, v);
  const auto n = static_cast<double>(y.size());
  EXPECT_NEAR(sum / n, 1, 0.05);
  EXPECT_GT(largest, 1.2);
}

TEST(Attention, IsTheSameOnCuda) {
  for (const float p : {0.0f, 0.3f})
    for (const auto& [steps, width] : {std::pair<std::int64_t, std::int64_t>{70, 40}, {33, 16}, {1, 5}})
      expect_same_on_cuda(
          "causal_attention",
          [p](const auto& t) {
            return ops::causal_attention(t[0], 2, p, {.seed = 3, .layer = 2, .step = 1, .first_sample = 4});
          },
          {random_tensor({1, steps, 6 * width}, 1)}, 1e-5f);
}

TEST(Attention, OfAGhostIsAGhost) {
  const Tensor y = ops::causal_attention(Tensor::empty({2, 8, 48}, DType::f32, kGhost), 4);
  EXPECT_EQ(y.shape(), (Shape{2, 8, 16}));
  EXPECT_EQ(y.device(), kGhost);
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const Tensor qkv = random_tensor({2, 8, 48}, 1);
  EXPECT_THROW(ops::causal_attention(qkv, 3), ShapeError);
  EXPECT_THROW(ops::causal_attention(qkv, 0), ShapeError);
  EXPECT_THROW(ops::causal_attention(qkv, 2, 1.0f), ShapeError);
  EXPECT_THROW(ops::causal_attention(random_tensor({8, 48}, 1), 2), ShapeError);
  EXPECT_THROW(ops::causal_attention(qkv, 2, 0.1f, {.time_first = true}), ShapeError);
  EXPECT_THROW(make<CausalSelfAttention>({.dim = 10, .heads = 3}), ShapeError);
  EXPECT_THROW((*make<CausalSelfAttention>({.dim = 10, .heads = 2}))(random_tensor({2, 8, 12}, 1)), ShapeError);
  EXPECT_EQ(ops::causal_attention(Tensor::zeros({0, 8, 48}), 2).shape(), (Shape{0, 8, 16}));
  EXPECT_EQ(ops::causal_attention(Tensor::zeros({2, 0, 48}), 2).shape(), (Shape{2, 0, 16}));
}

TEST(Attention, AModuleHasTheNamesOfGpt2) {
  CausalSelfAttention module({.dim = 12, .heads = 3});
  std::vector<std::string> names;
  for (const auto& p : module.named_parameters()) names.push_back(p.name);
  EXPECT_EQ(names, (std::vector<std::string>{"c_attn.weight", "c_attn.bias", "c_proj.weight", "c_proj.bias"}));
  EXPECT_EQ(CausalSelfAttention({.dim = 12, .heads = 3, .bias = false}).named_parameters().size(), 2u);
}

TEST(Attention, AModuleIsComputedAgainWithTheSameBits) {
  const auto run = [](bool again, std::int64_t step) {
    CausalSelfAttention module({.dim = 12, .heads = 3, .dropout = 0.5f});
    module.initialize(3);
    module.checkpoint_activations(again);
    ForwardContext context{.seed = 7, .step = step};
    module.set_context(&context);
    const auto leaf = std::make_shared<Leaf>();
    const Tensor y = module(with_gradient(random_tensor({2, 20, 12}, 1), leaf));
    with_upstream(y, random_tensor(y.shape(), 2)).backward();
    return std::pair{y.to_vector(), leaf->grad.to_vector()};
  };
  EXPECT_EQ(run(true, 4), run(false, 4));
  EXPECT_NE(run(false, 5), run(false, 4));  // it draws anew
}

}  // namespace
}  // namespace laconic
