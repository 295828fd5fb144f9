// What CUDA devices compute with NVIDIA's libraries, against the CPU: linear layers, convolutions, recurrences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <utility>
#ifdef LACONIC_CUDA_EMULATED
#include <cudnn.h>
#endif

#include "core/kernels/products.h"
#include "core/ops/conv2d.h"
#include "core/ops/linear.h"
#include "core/ops/recurrent.h"
#include "core/ops/reshape.h"
#include "core/precision.h"
#include "core/raw.h"
#include "tests/cuda_devices.h"
#include "tests/error_of.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

using CudaProductsTest = CudaTest;
using Op = std::function<Tensor(const std::vector<Tensor>&)>;

struct Precise {
  explicit Precise(Precision p) { set_matmul_precision(p); }
  ~Precise() { set_matmul_precision(Precision::fp32); }
};

/// Values that bf16 holds, near those of x.
Tensor rounded_to_bf16(const Tensor& x) {
  return Tensor::of(x.shape(), raw::cast(Tensor::of(x.shape(), x.to_vector()), DType::bf16).to_vector());
}

/// An operation's value and, after it, the gradient of each input; those that were there before are added to.
/// upstream: bf16 if that shall hold the gradient which it starts from
std::vector<Tensor> computed(const Op& op, const std::vector<Tensor>& inputs, Device device, bool add = false,
                             DType upstream = DType::f32) {
  std::vector<std::shared_ptr<Leaf>> leaves;
  std::vector<Tensor> x;
  for (const Tensor& t : inputs) {
    leaves.push_back(std::make_shared<Leaf>());
    if (add) {
      leaves.back()->grad = Tensor::full(t.shape(), 0.5f, device);
      leaves.back()->written = true;
    }
    x.push_back(with_gradient(copied(t, device), leaves.back()));
  }
  const Tensor y = op(x);
  Tensor dy = random_tensor(y.shape(), 99);
  if (upstream == DType::bf16) dy = rounded_to_bf16(dy);
  if (y.rank() == 4) dy = raw::to_layout(dy, y.layout());
  with_upstream(y, copied(dy, device)).backward();
  std::vector<Tensor> all{copied(y, kCpu)};
  for (const auto& l : leaves) all.push_back(copied(l->grad, kCpu));
  return all;
}

void expect_same(const Op& op, const std::vector<Tensor>& inputs, float tolerance = 2e-5f) {
  for (const bool add : {false, true}) {
    const std::vector<Tensor> expected = computed(op, inputs, kCpu, add), got = computed(op, inputs, kCuda, add);
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_close(got[i], expected[i], tolerance, concat(i == 0 ? "value" : concat("gradient ", i - 1), " add ", add));
  }
}

/// Whether products of tf32 are sure to round their operands: NVIDIA's libraries may do it, where they think it worth
/// it.
#ifdef LACONIC_CUDA_EMULATED
constexpr bool kRounds = true;
#else
constexpr bool kRounds = false;
#endif

TEST_F(CudaProductsTest, Rounding) {
  // Ties go to even; the largest float becomes infinity; NaN stays.
  const std::vector<float> x = {1.0f,    1.00390625f,   1.01171875f,
                                -1.004f, 3.4028235e38f, -INFINITY,
                                1e-40f,  NAN,           std::bit_cast<float>(0x7f800001u)};
  const std::vector<float> y = {1.0f, 1.0f, 1.015625f, -1.0078125f, INFINITY, -INFINITY, 9.18355e-41f};
  const Tensor host = Tensor::of({9}, x), t = copied(host, kCuda);
  for (const Device device : {kCpu, kCuda}) {
    const std::vector<float> got = raw::cast(device == kCpu ? host : t, DType::bf16).to_vector();
    for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(got[i], y[i]) << i;
    EXPECT_FLOAT_EQ(got[6], y[6]);
    EXPECT_TRUE(std::isnan(got[7]));
    EXPECT_TRUE(std::isnan(got[8]));
  }
  const Tensor long_one = random_tensor({1003}, 5);
  EXPECT_EQ(raw::cast(copied(long_one, kCuda).range(1, 1001), DType::bf16).to_vector(),
            raw::cast(long_one.range(1, 1001), DType::bf16).to_vector());
}

TEST_F(CudaProductsTest, Linear) {
  for (const auto& [rows, in, out] : {std::array<std::int64_t, 3>{1, 1, 1}, {3, 5, 4}, {33, 31, 64}, {300, 8, 10}}) {
    SCOPED_TRACE(concat(rows, " x ", in, " -> ", out));
    const std::vector<Tensor> inputs{random_tensor({rows, in}, 1), random_tensor({out, in}, 2),
                                     random_tensor({out}, 3)};
    expect_same([](const auto& x) { return ops::linear(x[0], x[1], x[2]); }, inputs);
    expect_same([](const auto& x) { return ops::linear(x[0], x[1], x[2], true); }, inputs);
    expect_same([](const auto& x) { return ops::linear(x[0], x[1], {}, true); }, {inputs[0], inputs[1]});
  }
}

TEST_F(CudaProductsTest, LinearOfNoRows) {
  const auto got = computed([](const auto& x) { return ops::linear(x[0], x[1], x[2]); },
                            {Tensor::zeros({0, 3}), random_tensor({2, 3}, 2), random_tensor({2}, 3)}, kCuda);
  EXPECT_EQ(got[0].shape(), (Shape{0, 2}));
  EXPECT_EQ(got[2].to_vector(), std::vector<float>(6, 0.0f));
  EXPECT_EQ(got[3].to_vector(), std::vector<float>(2, 0.0f));
}

TEST_F(CudaProductsTest, LinearByChunksOfRows) {
  const Tensor x = random_tensor({5, 7}, 1), w = random_tensor({10, 7}, 2), b = random_tensor({10}, 3);
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    const Precise set(precision);
    const auto held = std::make_shared<Parameter>(Shape{10, 7}, Role::linear);
    const ParameterArena arena({held}, kCuda);
    Parameter& parameter = *held;
    parameter.value().copy_from(w);
    parameter.set_chunk_rows(4);
    const auto whole = computed([](const auto& t) { return ops::linear(t[0], t[1], t[2], true); }, {x, w, b}, kCuda);
    const auto leaf = std::make_shared<Leaf>();
    const Tensor y = ops::linear(with_gradient(copied(x, kCuda), leaf), parameter, copied(b, kCuda), true);
    // A library may add up in another order where a product is narrower.
    expect_close(y, whole[0], 2e-6f, "value");
    with_upstream(y, copied(random_tensor(y.shape(), 99), kCuda)).backward();
    expect_close(leaf->grad, whole[1], 2e-6f, "gradient of x");
    expect_close(parameter.grad(), whole[2], 2e-6f, "gradient of w");
  }
}

TEST_F(CudaProductsTest, LinearInBf16) {
  const std::vector<Tensor> inputs{random_tensor({6, 40}, 1), random_tensor({9, 40}, 2), random_tensor({9}, 3)};
  const Op op = [](const auto& x) { return ops::linear(x[0], x[1], x[2]); };
  const Precise set(Precision::bf16);
  const std::vector<Tensor> got = computed(op, inputs, kCuda);
  // The CPU with operands rounded: forward's here, and the gradient that comes from above for the products of backward.
  const Tensor x = rounded_to_bf16(inputs[0]), w = rounded_to_bf16(inputs[1]), dy = random_tensor({6, 9}, 99);
  expect_close(got[0], ops::linear(x, w, inputs[2]), 2e-6f, "value");
  const Tensor exact = ops::linear(inputs[0], inputs[1], inputs[2]);
  EXPECT_NE(got[0].to_vector(), exact.to_vector());
  expect_close(got[0], exact, 1e-2f, "value, about");
  const auto leaf = std::make_shared<Leaf>();
  const auto leaf_w = std::make_shared<Leaf>();
  with_upstream(ops::linear(with_gradient(x, leaf), with_gradient(w, leaf_w), {}), rounded_to_bf16(dy)).backward();
  expect_close(got[1], leaf->grad, 2e-6f, "gradient of x");
  expect_close(got[2], leaf_w->grad, 2e-6f, "gradient of w");
  expect_close(got[3], Tensor::of({9}, std::vector<float>([&] {
                                    std::vector<float> sums(9);
                                    const std::vector<float> v = dy.to_vector();
                                    for (std::size_t i = 0; i < v.size(); ++i) sums[i % 9] += v[i];
                                    return sums;
                                  }())),
               2e-6f, "gradient of b: not rounded");
  const std::vector<Tensor> added = computed(op, inputs, kCuda, true);
  for (std::size_t i = 1; i < got.size(); ++i) {
    raw::axpy(got[i], 1, Tensor::full(got[i].shape(), 0.5f));
    expect_close(added[i], got[i], 1e-6f, concat("added to ", i));
  }
}

TEST_F(CudaProductsTest, LinearSeesNewWeightsInBf16) {
  const Precise set(Precision::bf16);
  const Tensor x = copied(random_tensor({2, 8}, 1), kCuda), w = copied(random_tensor({3, 8}, 2), kCuda);
  const std::vector<float> before = ops::linear(x, w, {}).to_vector();
  raw::scale(w, 2);
  std::vector<float> twice = before;
  for (float& v : twice) v *= 2;
  EXPECT_EQ(ops::linear(x, w, {}).to_vector(), twice);
}

TEST_F(CudaProductsTest, LinearInTf32) {
  const std::vector<Tensor> inputs{random_tensor({64, 64}, 1), random_tensor({64, 64}, 2), random_tensor({64}, 3)};
  const Op op = [](const auto& x) { return ops::linear(x[0], x[1], x[2]); };
  const std::vector<Tensor> expected = computed(op, inputs, kCpu);
  const Precise set(Precision::tf32);
  const std::vector<Tensor> got = computed(op, inputs, kCuda);
  for (std::size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i], 2e-3f, concat(i));
  if (kRounds) {
    EXPECT_GT(difference(got[0], expected[0]), 1e-5f) << "operands are rounded";
  }
}

struct ConvCase {
  Shape x, w;
  ops::Conv2dOptions o;
};
std::vector<ConvCase> conv_cases() {
  return {{{2, 1, 6, 5}, {3, 1, 3, 3}, {.pad = 1}},
          {{2, 3, 7, 5}, {4, 3, 3, 3}, {.stride = 2, .pad = 1}},
          {{1, 3, 11, 11}, {5, 3, 5, 5}, {.stride = 4, .pad = 2}},
          {{3, 4, 5, 5}, {6, 2, 3, 3}, {.pad = 1, .groups = 2}},
          {{2, 6, 5, 4}, {6, 1, 3, 3}, {.pad = 1, .groups = 6}},
          {{1, 3, 6, 6}, {2, 3, 2, 2}, {.dilation = 2}},
          {{2, 3, 9, 8}, {2, 3, 3, 2}, {.stride = 3, .pad = 2, .dilation = 2}},
          {{2, 4, 9, 8}, {6, 2, 3, 3}, {.stride = 2, .pad = 2, .dilation = 2, .groups = 2}},
          {{2, 17, 5, 4}, {33, 17, 1, 1}, {}},
          {{2, 8, 5, 4}, {4, 8, 1, 1}, {.stride = 2}},
          {{2, 8, 3, 3}, {4, 2, 1, 1}, {.groups = 4}},
          {{2, 16, 4, 4}, {16, 16, 3, 3}, {.pad = 1}},
          {{2, 200, 2, 2}, {16, 200, 1, 1}, {}},
          {{5, 7, 1, 1}, {3, 7, 1, 1}, {}}};
}
std::vector<Tensor> conv_inputs(const ConvCase& c) {
  return {raw::to_layout(random_tensor(c.x, 1), Layout::channels_last), random_tensor(c.w, 2),
          random_tensor({c.w[0]}, 3)};
}

TEST_F(CudaProductsTest, Convolution) {
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(concat(c.x, " * ", c.w));
    const std::vector<Tensor> inputs = conv_inputs(c);
    expect_same([&](const auto& x) { return ops::conv2d(x[0], x[1], x[2], c.o); },
                {random_tensor(c.x, 4), inputs[1], inputs[2]});  // an image as data comes
    for (const bool relu : {false, true}) {
      ops::Conv2dOptions o = c.o;
      o.relu = relu;
      expect_same([&](const auto& x) { return ops::conv2d(x[0], x[1], x[2], o); }, inputs);
      expect_same([&](const auto& x) { return ops::conv2d(x[0], x[1], {}, o); }, {inputs[0], inputs[1]});
    }
  }
}

#ifdef LACONIC_CUDA_EMULATED
// Forward, and two gradients.
TEST_F(CudaProductsTest, ConvolutionInPlainOrderWhereThatSavesProducts) {
  const auto in_plain_order = [](const ConvCase& c, Precision precision) {
    const Precise set(precision);
    const std::size_t before = emulated_cuda::convolutions_in_plain_order();
    const std::vector<Tensor> inputs = conv_inputs(c);
    const Op op = [&](const auto& x) { return ops::conv2d(x[0], x[1], x[2], c.o); };
    const std::vector<Tensor> got = computed(op, inputs, kCuda), expected = computed(op, inputs, kCpu);
    for (std::size_t i = 0; i < got.size(); ++i)
      expect_close(got[i], expected[i], precision == Precision::fp32 ? 2e-5f : 2e-2f, concat(i));
    return emulated_cuda::convolutions_in_plain_order() - before;
  };
  const ConvCase many{{2, 32, 5, 4}, {48, 32, 3, 3}, {.pad = 1}};
  EXPECT_EQ(in_plain_order(many, Precision::fp32), 3u);
  EXPECT_EQ(in_plain_order(many, Precision::tf32), 0u);  // tensor cores want channels last
  EXPECT_EQ(in_plain_order(many, Precision::bf16), 0u);
  EXPECT_EQ(in_plain_order({{2, 32, 5, 4}, {48, 32, 3, 3}, {.stride = 2, .pad = 1}}, Precision::fp32), 0u);  // no such
  EXPECT_EQ(in_plain_order({{2, 16, 4, 4}, {64, 16, 3, 3}, {.pad = 1}}, Precision::fp32), 0u);  // too few channels
  EXPECT_EQ(in_plain_order({{2, 8, 4, 4}, {8, 4, 3, 3}, {.pad = 1, .groups = 2}}, Precision::fp32), 3u);
  EXPECT_EQ(in_plain_order({{2, 8, 4, 4}, {8, 4, 3, 3}, {.pad = 1, .groups = 2}}, Precision::tf32), 0u);
}
#endif

TEST_F(CudaProductsTest, ConvolutionOfNoImages) {
  const auto got = computed([](const auto& x) { return ops::conv2d(x[0], x[1], x[2], {.pad = 1}); },
                            {raw::to_layout(Tensor::zeros({0, 2, 4, 4}), Layout::channels_last),
                             random_tensor({3, 2, 3, 3}, 2), random_tensor({3}, 3)},
                            kCuda);
  EXPECT_EQ(got[0].shape(), (Shape{0, 3, 4, 4}));
  EXPECT_EQ(got[1].shape(), (Shape{0, 2, 4, 4}));
  EXPECT_EQ(got[2].to_vector(), std::vector<float>(54, 0.0f));
  EXPECT_EQ(got[3].to_vector(), std::vector<float>(3, 0.0f));
}

TEST_F(CudaProductsTest, ConvolutionOfABatchThatIsTooLargeToDescribe) {
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(concat(c.x, " * ", c.w));
    const std::vector<Tensor> inputs = conv_inputs(c);
    const Tensor x = copied(inputs[0], kCuda), w = copied(inputs[1], kCuda), b = copied(inputs[2], kCuda);
    const Tensor y = ops::conv2d(x, w, b, c.o);
    const Tensor dy = copied(raw::to_layout(random_tensor(y.shape(), 99), y.layout()), kCuda);
    const auto with_at_most = [&](std::int64_t elements) {
      const std::vector<Tensor> all{Tensor::like(y), Tensor::like(x), Tensor::full(w.shape(), 0.5f, kCuda)};
      cuda::conv2d_forward(all[0], x, w, b, c.o, elements);
      cuda::conv2d_backward_data(all[1], dy, w, c.o, elements);
      cuda::conv2d_backward_weights(all[2], true, x, dy, c.o, elements);
      return all;
    };
    const std::vector<Tensor> in_parts = with_at_most(7), whole = with_at_most(cuda::kConvMostElements);
    for (std::size_t i = 0; i < whole.size(); ++i) expect_close(in_parts[i], whole[i], 2e-5f, concat(i));
  }
}

TEST_F(CudaProductsTest, ConvolutionInTf32AndBf16) {
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(concat(c.x, " * ", c.w));
    const std::vector<Tensor> inputs = conv_inputs(c);
    const Op op = [&](const auto& x) { return ops::conv2d(x[0], x[1], x[2], c.o); };
    const std::vector<Tensor> exact = computed(op, inputs, kCpu, false, DType::bf16),
                              in_fp32 = computed(op, inputs, kCuda, false, DType::bf16);
    const bool aligned = c.o.groups == 1 && c.x[1] % 16 == 0 && c.w[0] % 16 == 0;  // sizes that tensor cores take
    for (const Precision precision : {Precision::tf32, Precision::bf16}) {
      const Precise set(precision);
      const std::vector<Tensor> got = computed(op, inputs, kCuda, false, DType::bf16);
      const float about = precision == Precision::bf16 ? 1.5e-2f : 2e-3f;
      for (std::size_t i = 0; i < got.size(); ++i)
        expect_close(got[i], exact[i], about, concat(to_string(precision), " ", i));
      if (aligned && (kRounds || precision == Precision::bf16)) {
        EXPECT_GT(difference(got[0], exact[0]), 1e-5f) << "operands are rounded";
      }
      EXPECT_EQ(got[3].to_vector(), in_fp32[3].to_vector()) << "the bias's gradient is added up in float32";
      // What was there before is added to in float32.
      const std::vector<Tensor> added = computed(op, inputs, kCuda, true, DType::bf16);
      for (std::size_t i = 1; i < got.size(); ++i) {
        raw::axpy(got[i], 1, Tensor::full(got[i].shape(), 0.5f));
        expect_close(added[i], got[i], 2e-6f, concat(to_string(precision), " added to ", i));
      }
    }
    // With operands that bf16 holds only the sums are rounded, and once more what is added to them.
    std::vector<Tensor> rounded, on_device;
    for (const Tensor& t : inputs) {
      rounded.push_back(raw::to_layout(rounded_to_bf16(t), t.layout()));
      on_device.push_back(copied(rounded.back(), kCuda));
    }
    const Tensor expected = ops::conv2d(rounded[0], rounded[1], {}, c.o);
    const Precise set(Precision::bf16);
    const Tensor sums = ops::conv2d(on_device[0], on_device[1], {}, c.o);
    expect_close(sums, expected, 4e-3f, "bf16 operands");
    const Tensor with_bias = ops::to_float(copied(sums, kCpu)) + ops::reshape(rounded[2], {1, -1, 1, 1});
    for (const bool relu : {false, true}) {
      ops::Conv2dOptions o = c.o;
      o.relu = relu;
      const Tensor all = ops::conv2d(on_device[0], on_device[1], on_device[2], o);
      EXPECT_EQ(all.dtype(), DType::bf16);
      EXPECT_EQ(all.to_vector(), rounded_to_bf16(relu ? ops::relu(with_bias) : with_bias).to_vector());
    }
  }
}

TEST_F(CudaProductsTest, ConvolutionInBf16OfRowsThatBeginAnywhere) {
  const Precise set(Precision::bf16);
  const auto on_cuda = [](const Shape& shape, int seed) { return copied(random_tensor(shape, seed), kCuda); };
  const ops::Conv2dOptions o{.pad = 1};
  const Tensor all = ops::conv2d(on_cuda({4, 3, 3, 3}, 1), on_cuda({3, 3, 3, 3}, 2), {}, o),
               w = on_cuda({5, 3, 3, 3}, 3);
  ASSERT_EQ(all.dtype(), DType::bf16);
  const Tensor part = all.rows(1, 2), apart = Tensor::like(part);  // an image has 54 bytes
  apart.copy_from(part);
  const Tensor y = ops::conv2d(part, w, {}, o);
  EXPECT_EQ(y.to_vector(), ops::conv2d(apart, w, {}, o).to_vector());
  const Tensor dw = Tensor::empty(w.shape(), DType::f32, kCuda), same = Tensor::like(dw);
  cuda::conv2d_backward_weights(dw, false, part, y, o, cuda::kConvMostElements);
  cuda::conv2d_backward_weights(same, false, apart, y, o, cuda::kConvMostElements);
  EXPECT_EQ(dw.to_vector(), same.to_vector());
}

#if defined(LACONIC_CUDA_EMULATED) && !defined(__SANITIZE_ADDRESS__)
// Its 8 GiB are reserved, not taken.
TEST_F(CudaProductsTest, ConvolutionLeavesAlgorithmsWhoseWorkspaceCannotBeHad) {
  const std::vector<Tensor> inputs{random_tensor({2, 5, 6, 7}, 1), random_tensor({4, 5, 3, 3}, 2),
                                   random_tensor({4}, 3)};
  const Op op = [](const auto& x) { return ops::conv2d(x[0], x[1], x[2], {}); };
  const std::vector<Tensor> expected = computed(op, inputs, kCpu);
  std::vector<Tensor> full;
  EXPECT_THROW(while (true) full.push_back(Tensor::empty({std::int64_t{1} << 26}, DType::f32, kCuda)), Error);
  full.pop_back();
  emulated_cuda::offer_workspace(std::size_t{1} << 29);
  const std::vector<Tensor> got = computed(op, inputs, kCuda);
  emulated_cuda::offer_workspace(0);
  for (std::size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i], 2e-5f, concat(i));
  full.clear();
  release_unused_memory(kCuda);
}
#endif

TEST_F(CudaProductsTest, ConvolutionSeesNewWeights) {
  const Tensor x = copied(raw::to_layout(random_tensor({2, 3, 5, 5}, 1), Layout::channels_last), kCuda);
  const Tensor w = copied(random_tensor({4, 3, 3, 3}, 2), kCuda);
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp32}) {
    const Precise set(precision);
    const auto value = [&] { return copied(ops::conv2d(x, w, {}, {.pad = 1}), kCpu).to_vector(); };
    std::vector<float> twice = value();
    raw::scale(w, 2);
    for (float& v : twice) v *= 2;
    EXPECT_EQ(value(), twice);
  }
}

TEST_F(CudaProductsTest, ThreadsComputeAtOnce) {
  const Op op = [](const auto& x) {
    return ops::linear(ops::reshape(ops::conv2d(x[0], x[1], {}, {.pad = 1}), {2, 4 * 25}), x[2], {});
  };
  const std::vector<Tensor> inputs{random_tensor({2, 3, 5, 5}, 1), random_tensor({4, 3, 3, 3}, 2),
                                   random_tensor({6, 100}, 3)};
  const std::vector<Tensor> expected = computed(op, inputs, kCpu);
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&, device = Device{Device::Kind::cuda, i % cuda_devices()}] {
      for (int round = 0; round < 3; ++round) {
        const std::vector<Tensor> got = computed(op, inputs, device);
        for (std::size_t k = 0; k < got.size(); ++k) expect_close(got[k], expected[k], 2e-5f, concat(device, " ", k));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_F(CudaProductsTest, OperandsOnTwoDevicesAreToldApart) {
  const Tensor x = random_tensor({2, 3}, 1), w = random_tensor({4, 3}, 2);
  EXPECT_EQ(error_of<ShapeError>([&] { ops::linear(x, copied(w, kCuda), {}); }),
            "linear: x is on cpu but w is on cuda:0. Move the model and the data to one device.");
  EXPECT_EQ(error_of<ShapeError>([&] { ops::linear(copied(x, kCuda), copied(w, kCuda), Tensor::zeros({4})); }),
            "linear: x is on cuda:0 but b is on cpu. Move the model and the data to one device.");
  EXPECT_EQ(error_of<ShapeError>([&] {
              ops::conv2d(random_tensor({1, 2, 3, 3}, 1), copied(random_tensor({1, 2, 1, 1}, 2), kCuda), {}, {});
            }),
            "conv2d: x is on cpu but w is on cuda:0. Move the model and the data to one device.");
  const ops::RecurrentWeights weights{copied(random_tensor({8, 2}, 1), kCuda), copied(Tensor::zeros({8}), kCuda),
                                      copied(Tensor::zeros({8}), kCuda)};
  ops::LstmState state{Tensor::zeros({3, 2}), Tensor::zeros({3, 2})};
  EXPECT_EQ(
      error_of<ShapeError>([&] {
        ops::lstm(copied(random_tensor({4, 3, 8}, 2), kCuda), weights, state);
      }),
      "lstm: the input part is on cuda:0 but the initial state is on cpu. Move the model and the data to one device.");
}

}  // namespace
}  // namespace laconic
