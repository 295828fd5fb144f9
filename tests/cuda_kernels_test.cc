// Each CUDA kernel beside the CPU's of the same name, on sizes and addresses that do not suit it.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/kernels/elementwise.h"
#include "core/kernels/images.h"
#include "core/ops/normalize.h"
#include "core/ops/dropout.h"
#include "core/ops/reshape.h"
#include "core/ops/functions.h"
#include "core/ops/images.h"
#include "core/ops/losses.h"
#include "core/ops/reduce.h"
#include "core/raw.h"
#include "tests/error_of.h"
#include "tests/on_both.h"

namespace laconic {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

class CudaKernels : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (!IsSkipped()) cuda::select(0);
  }
};

/// Equal values on both devices.
struct Both {
  explicit Both(const Tensor& values) : host(values), device(copied(values, kCuda)) {}
  /// n values, the first of them `offset` elements behind an aligned address.
  Both(std::int64_t n, std::uint64_t seed, std::int64_t offset = 0)
      : host(random_tensor({n + offset}, seed).range(offset, n)),
        device(Tensor::empty({n + offset}, DType::f32, kCuda).range(offset, n)) {
    device.copy_from(host);
  }
  const float* on(Device d) const { return (d == kCpu ? host : device).data<float>(); }
  float* of(Device d) const { return (d == kCpu ? host : device).data<float>(); }

  void expect_same(const char* what) const { EXPECT_EQ(bits(device), bits(host)) << what; }
  /// In parts of the largest value, or of 1.
  void expect_close(float tolerance, const char* what) const { laconic::expect_close(device, host, tolerance, what); }

  static std::vector<std::uint32_t> bits(const Tensor& t) {
    std::vector<std::uint32_t> all;
    for (const float v : t.to_vector()) all.push_back(std::isnan(v) ? 0x7FC00000u : std::bit_cast<std::uint32_t>(v));
    return all;
  }
  Tensor host, device;
};

/// Calls f(n, offset) for sizes around those of warps, blocks and vectors.
template <class F>
void for_sizes(F f) {
  for (const std::int64_t n : {0, 1, 3, 31, 33, 257, 4099})
    for (const int offset : {0, 1}) {
      SCOPED_TRACE(concat(n, " elements from ", offset));
      f(n, offset);
    }
}

TEST_F(CudaKernels, Elementwise) {
  for_sizes([](std::int64_t n, int offset) {
    const Both a(n, 1, offset), b(n, 2, offset), y(n, 3, 0);
    raw::fill(y.host, 2.5f), raw::fill(y.device, 2.5f);
    y.expect_same("fill");
    const auto both = [&](const char* what, auto&& on_cpu, auto&& on_cuda, float tolerance) {
      on_cpu(y.of(kCpu), a.on(kCpu), b.on(kCpu));
      on_cuda(y.of(kCuda), a.on(kCuda), b.on(kCuda));
      y.expect_close(tolerance, what);
    };
#define LACONIC_BOTH(what, tolerance, ...)                                                                         \
  both(                                                                                                            \
      what, [&](float* y, [[maybe_unused]] const float* a, [[maybe_unused]] const float* b) { cpu::__VA_ARGS__; }, \
      [&](float* y, [[maybe_unused]] const float* a, [[maybe_unused]] const float* b) { cuda::__VA_ARGS__; },      \
      tolerance)
    LACONIC_BOTH("add", 0, add(y, a, b, n));
    LACONIC_BOTH("add to", 0, add(y, a, n));
    LACONIC_BOTH("axpy", 1e-6f, axpy(y, -0.3f, b, n));
    LACONIC_BOTH("scale", 1e-6f, scale(y, 1.7f, n));
    LACONIC_BOTH("relu", 0, relu_forward(y, a, n));
    LACONIC_BOTH("relu backward", 0, relu_backward(y, b, a, n));
    LACONIC_BOTH("relu in place", 0, relu(y, n));
    LACONIC_BOTH("tanh", 1e-6f, tanh_forward(y, a, n));
    LACONIC_BOTH("tanh backward", 1e-6f, tanh_backward(y, b, y, n));
    LACONIC_BOTH("sigmoid", 1e-6f, sigmoid_forward(y, a, n));
    LACONIC_BOTH("sigmoid backward", 1e-6f, sigmoid_backward(y, b, y, n));
#undef LACONIC_BOTH
  });
}

TEST_F(CudaKernels, ValuesThatAreNotFinite) {
  const Both x(Tensor::of({7}, {kNan, kInf, -kInf, 0.0f, -0.0f, 1.0f, -1.0f})), y(7, 1);
  cpu::relu_forward(y.of(kCpu), x.on(kCpu), 7);
  cuda::relu_forward(y.of(kCuda), x.on(kCuda), 7);
  y.expect_same("relu");
  cpu::relu_backward(y.of(kCpu), x.on(kCpu), x.on(kCpu), 7);
  cuda::relu_backward(y.of(kCuda), x.on(kCuda), x.on(kCuda), 7);
  y.expect_same("relu backward");
  raw::clamp(x.host, 0.5f), raw::clamp(x.device, 0.5f);
  x.expect_same("clamp");
  EXPECT_FALSE(raw::all_finite(Tensor::full({300}, kNan, kCuda)));
  for_sizes([](std::int64_t n, int offset) {
    const Both finite(n, 1, offset);
    EXPECT_TRUE(raw::all_finite(finite.device));
    for (const float bad : {kNan, kInf, -kInf})
      for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
        if (n == 0) continue;
        const Tensor x = copied(finite.host, kCuda);
        raw::fill(x.range(at, 1), bad);
        EXPECT_FALSE(raw::all_finite(x)) << bad << " at " << at;
        EXPECT_FALSE(raw::all_finite(raw::cast(x, DType::bf16))) << bad << " in bf16 at " << at;
      }
  });
}

TEST_F(CudaKernels, Sums) {
  for (const std::int64_t n : {0, 1, 31, 33, 257, 16384, 16385, 100003})
    for (const int offset : {0, 1}) {
      SCOPED_TRACE(concat(n, " elements from ", offset));
      const Both x(n, 5, offset);
      const double squares = cpu::sum_of_squares(x.on(kCpu), n);
      double sum = 0, magnitudes = 0;
      for (std::int64_t i = 0; i < n; ++i) sum += x.on(kCpu)[i], magnitudes += std::abs(x.on(kCpu)[i]);
      EXPECT_NEAR(cuda::sum(x.on(kCuda), n), sum, 1e-12 * (1 + squares));
      EXPECT_NEAR(cpu::sum(x.on(kCpu), n), sum, 0x1p-23 * magnitudes);  // two roundings of each four
      EXPECT_NEAR(raw::sum_of_squares(x.device), squares, 1e-12 * squares);
      const Tensor y = Tensor::full({2}, kNan, kCuda);
      cuda::sum(y.data<float>(), 0.5f, x.on(kCuda), n);
      cuda::sum_of_squares(y.data<float>() + 1, 0.25f, x.on(kCuda), n);
      const std::vector<float> values = y.to_vector();
      EXPECT_NEAR(values[0], 0.5 * sum, 1e-6 * (1 + squares));
      EXPECT_NEAR(values[1], 0.25 * squares, 1e-6 * squares);
    }
}

TEST_F(CudaKernels, TheSumOfManyTensors) {
  std::vector<Tensor> host, device;
  for (int i = 0; i < 150; ++i) {  // more than one launch takes
    const Both x(i == 70 ? 40000 : i % 5 == 0 ? 0 : 7 * i, static_cast<std::uint64_t>(i), i % 2);
    host.push_back(x.host);
    device.push_back(x.device);
  }
  const double expected = raw::sum_of_squares(host);
  EXPECT_NEAR(raw::sum_of_squares(device), expected, 1e-12 * expected);
  EXPECT_EQ(raw::sum_of_squares(std::span<const Tensor>()), 0);
  EXPECT_EQ(raw::sum_of_squares(std::span(device).first(1)), 0) << "nothing in it";
}

TEST_F(CudaKernels, WhatALossHandsBack) {
  for_sizes([](std::int64_t n, int offset) {
    const Both x(n, 1, offset);
    const Tensor upstream = Tensor::of({1}, {3.0f}, kCuda), y = Tensor::empty({n}, DType::f32, kCuda);
    cuda::fill_times(y.data<float>(), 0.5f, upstream.data<float>(), n);
    EXPECT_EQ(y.to_vector(), std::vector<float>(static_cast<std::size_t>(n), 1.5f));
    cuda::scale_times(y.data<float>(), x.on(kCuda), 0.5f, upstream.data<float>(), n);
    raw::scale(x.host, 1.5f);
    expect_close(y, x.host, 1e-6f, "scale");
  });
}

TEST_F(CudaKernels, SumsOfRows) {
  for (const std::int64_t rows : {0, 1, 5, 33, 1000})
    for (const std::int64_t columns : {1, 3, 4, 17, 64, 100, 129, 260})
      for (const bool add : {false, true}) {
        SCOPED_TRACE(concat(rows, " rows of ", columns, add ? ", added" : ""));
        const Both x(rows * columns, 1, columns % 3), b(columns, 2);
        cpu::sum_rows(b.of(kCpu), x.on(kCpu), rows, columns, add);
        cuda::sum_rows(b.of(kCuda), x.on(kCuda), rows, columns, add);
        b.expect_close(1e-5f, "sums");
      }
}

TEST_F(CudaKernels, Updates) {
  for_sizes([](std::int64_t n, int offset) {
    const Both w(n, 1, offset), g(n, 2, offset), m(n, 3, offset), v(n, 4, offset);
    const auto check = [&](const char* what) {
      w.expect_close(1e-6f, what);
      m.expect_close(1e-6f, what);
      v.expect_close(1e-6f, what);
    };
    raw::SgdStep s{.lr = 0.1f,
                   .gradient_scale = 0.5f,
                   .weight_decay = 0.01f,
                   .momentum = 0.9f,
                   .dampening = 0.2f,
                   .nesterov = false,
                   .first = true};
    raw::sgd(w.host, g.host, {}, s), raw::sgd(w.device, g.device, {}, s);
    check("sgd");
    raw::fill(m.device, kNan);  // holds nothing yet
    for (const bool nesterov : {false, true}) {
      s.nesterov = nesterov;
      raw::sgd(w.host, g.host, m.host, s), raw::sgd(w.device, g.device, m.device, s);
      check(nesterov ? "nesterov" : "momentum");
      s.first = false;
    }
    raw::clamp(v.host, 0.3f), raw::clamp(v.device, 0.3f);
    v.expect_same("clamp");
    cpu::relu(v.of(kCpu), n), cuda::relu(v.of(kCuda), n);
    const raw::AdamStep a{.gradient_scale = 0.5f,
                          .weight_decay = 0.01f,
                          .beta1 = 0.9f,
                          .beta2 = 0.99f,
                          .rest1 = 0.1f,
                          .rest2 = 0.01f,
                          .eps = 1e-3f,
                          .step_size = 0.01f,
                          .root_correction = 0.5f,
                          .keep = 0.9f};
    raw::adam(w.host, g.host, m.host, v.host, a), raw::adam(w.device, g.device, m.device, v.device, a);
    check("adam");
  });
}

TEST_F(CudaKernels, Layouts) {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{3, 4, 40, 40}, Shape{1, 40, 33, 31}, Shape{2, 8, 9, 9},
                             Shape{1, 65, 1, 64}, Shape{2, 130, 2, 2}, Shape{0, 3, 4, 4}}) {
    SCOPED_TRACE(concat(shape));
    const Tensor x = random_tensor(shape, 1);
    const Tensor last = raw::to_layout(copied(x, kCuda), Layout::channels_last);
    EXPECT_EQ(last.layout(), Layout::channels_last);
    EXPECT_EQ(last.to_vector(), x.to_vector());  // converts back
    const Tensor on_host = Tensor::empty(shape, DType::f32, kCpu, Layout::channels_last);
    on_host.copy_from(last);
    EXPECT_EQ(on_host.to_vector(), x.to_vector());
  }
  expect_error<ShapeError>(
      [] {
        raw::to_layout(Tensor::zeros({1, 16, 2, 2}, DType::f32, kCuda), Layout::blocked16);
      },
      {"CPU"});
}

Tensor labels_of(std::int64_t rows, std::int64_t classes, std::uint64_t seed) {
  Random random(seed, Purpose::test);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(rows));
  for (auto& l : labels) l = random.below(static_cast<std::uint32_t>(classes));
  return Tensor::of({rows}, labels);
}

TEST_F(CudaKernels, CrossEntropy) {
  for (const std::int64_t classes : {1, 2, 10, 33, 1000, 1025, 5003})
    for (const std::int64_t rows : {1, 7, 9}) {
      SCOPED_TRACE(concat(rows, " rows of ", classes));
      const Tensor x = random_tensor({rows, classes}, 1), labels = labels_of(rows, classes, 2);
      raw::scale(x, 3);
      const Tensor there = copied(labels, kCuda), x_there = copied(x, kCuda);
      for (const float smoothing : {0.0f, 0.1f, 1.0f})
        expect_same_on_cuda(
            "loss",
            [&](const auto& t) { return ops::cross_entropy(t[0], t[0].device() == kCpu ? labels : there, smoothing); },
            {x}, 2e-6f);
      const double sum = ops::sum_of_cross_entropy(x, labels);
      EXPECT_NEAR(ops::sum_of_cross_entropy(x_there, there), sum, 1e-6 * (1 + sum));
      for (const int k : {1, 5})
        EXPECT_EQ(ops::count_correct(x_there, there, k), ops::count_correct(x, labels, k)) << k;
    }
}

TEST_F(CudaKernels, CrossEntropyWritesIntoLogitsThatNobodyElseHas) {
  const Tensor x = random_tensor({3, 10}, 1), labels = labels_of(3, 10, 2), there = copied(labels, kCuda);
  const auto gradient = [&](bool hand_over) {
    const auto leaf = std::make_shared<Leaf>();
    const Tensor in = with_gradient(copied(x, kCuda), leaf);
    Tensor logits = ops::add(in, in);
    const Tensor kept = hand_over ? Tensor() : logits;
    const std::vector<float> before = logits.to_vector();
    ops::cross_entropy(std::move(logits), there, 0).backward();
    if (kept.defined()) {
      EXPECT_EQ(kept.to_vector(), before);
    }
    return leaf->grad.to_vector();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST_F(CudaKernels, CrossEntropyOfLogitsThatAreNotUsual) {
  const std::vector<float> rows[] = {
      {kNan, 0, 1}, {kInf, 0, 1}, {-kInf, 0, 1}, {3e38f, -3e38f, 0}, {1000, 999, -1e30f}};
  for (const auto& row : rows) {
    const Tensor x = Tensor::of({1, 3}, row), label = Tensor::of({1}, std::vector<std::int64_t>{1});
    const float expected = ops::cross_entropy(x, label, 0).item(),
                got = ops::cross_entropy(copied(x, kCuda), copied(label, kCuda), 0).item();
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(got)
                                     : got == expected || std::abs(got - expected) <= 1e-6f * std::abs(expected))
        << row[0] << " " << got << " " << expected;
    EXPECT_EQ(ops::count_correct(copied(x, kCuda), copied(label, kCuda), 1), ops::count_correct(x, label, 1));
  }
}

TEST_F(CudaKernels, ALabelThatIsNoClassIsToldWhenSomebodyWaits) {
  for (const std::int64_t classes : {4, 2000})
    for (const std::int64_t bad : {std::int64_t{-1}, classes, std::int64_t{1} << 40}) {
      const Tensor x = Tensor::zeros({3, classes}, DType::f32, kCuda),
                   labels = Tensor::of({3}, std::vector<std::int64_t>{0, 3, bad}, kCuda);
      const Tensor loss = ops::cross_entropy(x, labels, 0);
      const std::string said = concat("label ", bad, " at position 2 is not in [0, ", classes, ")");
      expect_error<DataError>([&] { loss.item(); }, {said});
      expect_error<DataError>([&] { ops::count_correct(x, labels, 1); }, {said});
      expect_error<DataError>([&] { ops::sum_of_cross_entropy(x, labels); }, {said});
      EXPECT_NO_THROW(synchronize(kCuda));
    }
  expect_error<ShapeError>(
      [] {
        ops::cross_entropy(Tensor::zeros({1, 2}, DType::f32, kCuda), Tensor::zeros({1}, DType::i64), 0);
      },
      {"logits is on cuda:0", "labels is on cpu"});
}

TEST_F(CudaKernels, Embeddings) {
  for (const std::int64_t dim : {1, 4, 37, 132})
    for (const std::int64_t n : {1, 33, 100}) {
      SCOPED_TRACE(concat(n, " indices, ", dim, " columns"));
      const Tensor index = labels_of(n, 9, 3), there = copied(index, kCuda);
      expect_same_on_cuda(
          "embedding", [&](const auto& t) { return ops::embedding(t[0].device() == kCpu ? index : there, t[0]); },
          {random_tensor({9, dim}, 1)}, 0);
    }
  const Tensor w = random_tensor({5, 3}, 1);
  const Tensor y = ops::embedding(Tensor::of({2, 2}, std::vector<std::int64_t>{0, 5, 1, -2}, kCuda), copied(w, kCuda));
  expect_error<DataError>([&] { y.to_vector(); }, {"index ", " is not in [0, 5)"});
  EXPECT_EQ(y.to_vector()[3], 0) << "what an index from outside gives";
}

TEST_F(CudaKernels, DropoutDrawsTheCpusMasks) {
  const auto check = [](const Tensor& x, const ops::DropoutKey& key) {
    SCOPED_TRACE(concat(x.shape(), " ", x.layout()));
    const auto op = [&](const auto& t) { return ops::dropout(t[0], 0.3f, key); };
    const Derivatives expected = derivatives(op, {x}, kCpu), got = derivatives(op, {x}, kCuda);
    EXPECT_EQ(got.y.to_vector(), expected.y.to_vector());
    EXPECT_EQ(got.of_inputs[0].to_vector(), expected.of_inputs[0].to_vector());
  };
  const ops::DropoutKey key{.seed = 0x123456789, .layer = 2, .step = 77, .first_sample = 1000};
  for (const std::int64_t width : {1, 31, 63, 64, 65, 200}) check(random_tensor({3, width}, 1), key);
  const Tensor images = random_tensor({2, 5, 3, 7}, 1);
  check(images, key);
  check(raw::to_layout(images, Layout::channels_last), key);
  check(random_tensor({4, 3, 21}, 2), {.seed = 5, .step = 3, .first_sample = 8, .time_first = true});
}

TEST_F(CudaKernels, RowsAreCopiedAndAdded) {
  for (const std::int64_t width : {1, 4, 7, 64})
    for (const std::int64_t rows : {0, 1, 9})
      for (const std::int64_t gap : {0, 1, 4}) {
        const Both from(rows * (width + gap) + 1, 1), to(rows * width + 1, 2);
        for (const int offset : {0, 1}) {
          cpu::copy_rows(to.of(kCpu) + offset, width, from.on(kCpu) + offset, width + gap, rows, width);
          cuda::copy_rows(to.of(kCuda) + offset, width, from.on(kCuda) + offset, width + gap, rows, width);
          to.expect_same("copied");
          cpu::add_rows(to.of(kCpu) + offset, width, from.on(kCpu), width + gap, rows, width);
          cuda::add_rows(to.of(kCuda) + offset, width, from.on(kCuda), width + gap, rows, width);
          to.expect_same("added");
        }
      }
}

TEST_F(CudaKernels, BatchNorm) {
  for (const Shape& shape : {Shape{3, 1, 5, 5}, Shape{2, 3, 9, 7}, Shape{5, 16, 6, 6}, Shape{2, 20, 3, 3},
                             Shape{2, 130, 2, 2}, Shape{3, 132, 4, 4}, Shape{70, 5}, Shape{2, 64}, Shape{0, 3}})
    for (const bool training : {true, false})
      for (const bool relu : {true, false})
        for (const bool add : {true, false}) {
          SCOPED_TRACE(concat(shape, " training ", training, " relu ", relu, " added ", add));
          const std::int64_t c = shape[1];
          const Tensor running = random_tensor({c}, 7), spread = Tensor::full({c}, 1.3f);
          Tensor after[2][2];
          const auto op = [&](const auto& t) {
            const bool on_cuda = t[0].device() == kCuda;
            const Tensor mean = copied(running, t[0].device()), variance = copied(spread, t[0].device());
            const Tensor y = ops::batch_norm(t[0], t[1], t[2], mean, variance, {.training = training, .relu = relu},
                                             add ? t[3] : Tensor());
            if (!after[on_cuda][0].defined()) after[on_cuda][0] = mean, after[on_cuda][1] = variance;
            return y;
          };
          std::vector<Tensor> inputs = {random_tensor(shape, 1), random_tensor({c}, 2), random_tensor({c}, 3)};
          if (add) inputs.push_back(random_tensor(shape, 4));
          // Two samples' gradients leave next to nothing.
          expect_same_on_cuda("batch_norm", op, inputs, 2e-5f, shape[0] == 2 && shape.rank() == 2 ? 1 : 0);
          for (const int i : {0, 1}) expect_close(after[1][i], after[0][i], 1e-5f, "running statistics");
        }
  // Far from 0 the statistics are taken around the running mean.
  const Tensor far = random_tensor({40, 3, 4, 4}, 1);
  raw::axpy(far, 1, Tensor::full(far.shape(), 1000));
  expect_same_on_cuda(
      "far",
      [](const auto& t) {
        const Tensor mean = Tensor::full({3}, 1000, t[0].device()), variance = Tensor::full({3}, 1, t[0].device());
        return ops::batch_norm(t[0], t[1], t[2], mean, variance, {});
      },
      {far, random_tensor({3}, 2), random_tensor({3}, 3)}, 2e-3f);
}

TEST_F(CudaKernels, BatchNormOfAValueThatIsUsedTwice) {
  for (const bool relu : {true, false})
    expect_same_on_cuda(
        "pair",
        [&](const auto& t) {
          const Tensor mean = Tensor::full({4}, 0, t[0].device()), variance = Tensor::full({4}, 1, t[0].device());
          const Tensor y = ops::batch_norm(t[0], t[1], t[2], mean, variance, {.relu = relu});
          return ops::add(ops::multiply(y, y), y);
        },
        {raw::to_layout(random_tensor({2, 4, 3, 3}, 1), Layout::channels_last), random_tensor({4}, 2),
         random_tensor({4}, 3)},
        2e-5f);
}

TEST_F(CudaKernels, Pools) {
  for (const std::int64_t channels : {1, 3, 8, 17})
    for (const Shape& shape : {Shape{2, channels, 6, 5}, Shape{1, channels, 9, 12}}) {
      for (const ops::PoolOptions& o : {ops::PoolOptions{.kernel = 2},
                                        {.kernel = 3, .stride = 2, .pad = 1},
                                        {.kernel = 3, .stride = 2, .ceil_mode = true},
                                        {.kernel = 2, .stride = 3},
                                        {.kernel = 3, .stride = 1, .pad = 1, .count_include_pad = false}}) {
        SCOPED_TRACE(concat(shape, " kernel ", o.kernel, " stride ", o.stride));
        Tensor x = random_tensor(shape, 1);
        expect_same_on_cuda(
            "max", [&](const auto& t) { return ops::max_pool2d(t[0], o); }, {x}, 1e-6f);
        expect_same_on_cuda(
            "average", [&](const auto& t) { return ops::avg_pool2d(t[0], o); }, {x}, 1e-6f);
      }
      for (const int out : {1, 2, 4})
        expect_same_on_cuda(
            "adaptive", [&](const auto& t) { return ops::adaptive_avg_pool2d(t[0], out, 3); },
            {random_tensor(shape, 1)}, 1e-6f);
    }
}

// Between convolutions nothing becomes float32, in which it would take twice the memory.
TEST_F(CudaKernels, WhatStaysInBf16) {
  const Tensor image = raw::to_layout(random_tensor({2, 8, 4, 4}, 1), Layout::channels_last);
  const auto norm = [](const Tensor& x, const Tensor& added) {
    const Tensor zero = Tensor::zeros({8}, DType::f32, kCuda), one = Tensor::full({8}, 1, kCuda);
    return ops::batch_norm(x, one, zero, copied(zero, kCuda), copied(one, kCuda), {.relu = true}, added);
  };
  const std::pair<const char*, std::function<Tensor(const Tensor&)>> operations[] = {
      {"batch norm", [&](const Tensor& x) { return norm(x, {}); }},
      {"batch norm and addition", [&](const Tensor& x) { return norm(x, x); }},
      {"relu", [](const Tensor& x) { return ops::relu(x); }},
      {"a constant", [](const Tensor& x) { return x * 0.5f; }},
      {"addition", [](const Tensor& x) { return x + x; }},
      {"largest", [](const Tensor& x) { return ops::max_pool2d(x, {.kernel = 2}); }},
      {"average", [](const Tensor& x) { return ops::adaptive_avg_pool2d(x, 1, 1); }},
      {"joined",
       [](const Tensor& x) {
         return ops::concat_channels({x, x});
       }},
      {"shortcut", [](const Tensor& x) { return ops::pad_shortcut(x, 16); }},
      {"flattened", [](const Tensor& x) { return ops::flatten(x); }}};
  for (const auto& [name, f] : operations) {
    SCOPED_TRACE(name);
    DType of_gradient = DType::f32;
    const auto leaf = std::make_shared<Leaf>();
    const Tensor before = with_gradient(raw::cast(copied(image, kCuda), DType::bf16), leaf);
    const Tensor x =
        record("watch", before.value(), {before}, [&](const Tensor& dy, Grads&) { of_gradient = dy.dtype(); });
    const Tensor y = f(x);
    EXPECT_EQ(y.dtype(), DType::bf16);
    with_upstream(y, Tensor::full(y.shape(), 1, kCuda)).backward();
    EXPECT_EQ(of_gradient, DType::bf16);
  }
}

TEST_F(CudaKernels, LocalResponseNorm) {
  for (const Shape& shape : {Shape{2, 3, 4, 3}, Shape{1, 40, 3, 2}, Shape{5, 7}})
    for (const int size : {1, 4, 5})
      for (const float beta : {0.75f, 0.4f})
        expect_same_on_cuda(
            "local_response_norm",
            [&](const auto& t) { return ops::local_response_norm(t[0], {.size = size, .alpha = 0.5f, .beta = beta}); },
            {random_tensor(shape, 1)}, 1e-5f);
}

TEST_F(CudaKernels, Shortcuts) {
  for (const Shape& shape : {Shape{2, 3, 5, 4}, Shape{1, 8, 6, 7}})
    for (const std::int64_t more : {0, 5, 8})
      expect_same_on_cuda(
          "pad_shortcut", [&](const auto& t) { return ops::pad_shortcut(t[0], shape[1] + more); },
          {random_tensor(shape, 1)}, 0);
}

TEST_F(CudaKernels, Losses) {
  const Tensor a = random_tensor({3, 5, 7, 2}, 1), b = random_tensor({3, 5, 7, 2}, 2);
  expect_same_on_cuda(
      "sum", [](const auto& t) { return ops::sum(t[0]); }, {a}, 1e-5f);
  expect_same_on_cuda(
      "mean", [](const auto& t) { return ops::mean(t[0]); }, {a}, 1e-6f);
  expect_same_on_cuda(
      "mse", [](const auto& t) { return ops::mse(t[0], t[1]); }, {a, b}, 1e-6f);
}

TEST_F(CudaKernels, Counters) {
  const Tensor counter = Tensor::zeros({}, DType::i64, kCuda);
  for (int i = 0; i < 3; ++i) raw::increment(counter);
  EXPECT_EQ(counter.item(), 3);
}

}  // namespace
}  // namespace laconic
