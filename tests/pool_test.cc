// Max-pooling against the definition, over many shapes, layouts, devices, and among equal values and NaN.
#include "core/ops/images.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/kernels/images.h"
#include "core/base/parallel.h"
#include "core/base/random.h"
#include "core/raw.h"
#include "tests/cuda_devices.h"
#include "tests/tensors.h"

namespace laconic {
namespace {

struct Expected {
  std::vector<float> y, dx;
};

/// The definition, in plain order; dy = 1, 2, 3, … over y.
Expected max_pool(const std::vector<float>& x, const Shape& s, std::int64_t out_h, std::int64_t out_w,
                  const ops::PoolOptions& o) {
  Expected e{{}, std::vector<float>(x.size())};
  for (std::int64_t image = 0; image < s[0] * s[1]; ++image)
    for (std::int64_t i = 0; i < out_h; ++i)
      for (std::int64_t j = 0; j < out_w; ++j) {
        std::int64_t best = -1;
        for (std::int64_t h = i * o.stride - o.pad; h < i * o.stride - o.pad + o.kernel; ++h)
          for (std::int64_t w = j * o.stride - o.pad; w < j * o.stride - o.pad + o.kernel; ++w) {
            if (h < 0 || w < 0 || h >= s[2] || w >= s[3]) continue;
            const std::int64_t at = (image * s[2] + h) * s[3] + w;
            if (best < 0 || x[at] > x[best] || std::isnan(x[at])) best = at;
          }
        e.y.push_back(x[best]);
        e.dx[best] += static_cast<float>(e.y.size());
      }
  return e;
}

std::vector<std::pair<Layout, Device>> places(std::int64_t channels) {
  std::vector<std::pair<Layout, Device>> all = {{Layout::plain, kCpu}, {Layout::channels_last, kCpu}};
  if (channels % 16 == 0) all.push_back({Layout::blocked16, kCpu});
  if (cuda_devices() > 0) all.push_back({Layout::channels_last, kCuda});
  return all;
}

TEST(MaxPool, IsWhatItsDefinitionSaysForEveryWidthAndLayout) {
  Random random(1, Purpose::test);
  for (std::int64_t channels : {1, 2, 3, 5, 6, 7, 8, 9, 15, 16, 17, 32, 33})
    for (const ops::PoolOptions& o : {ops::PoolOptions{.kernel = 2, .stride = 2},
                                      {.kernel = 2, .stride = 2, .ceil_mode = true},
                                      {.kernel = 3, .stride = 2, .pad = 1},
                                      {.kernel = 3, .stride = 3},
                                      {.kernel = 2, .stride = 1}})
      for (const Shape& s :
           {Shape{2, channels, 4, 4}, Shape{3, channels, 7, 9}, Shape{1, channels, 28, 28}, Shape{2, channels, 3, 34}})
        for (const auto& [layout, device] : places(channels)) {
          SCOPED_TRACE(concat(s, " ", layout, " on ", device, " kernel ", o.kernel, " stride ", o.stride));
          std::vector<float> values(static_cast<std::size_t>(s.elements()));
          for (float& v : values) v = static_cast<float>(random.below(7)) - 3;
          values[random.below(static_cast<std::uint32_t>(values.size()))] = NAN;
          auto leaf = std::make_shared<Leaf>();
          const Tensor x = with_gradient(copied(raw::to_layout(Tensor::of(s, values), layout), device), leaf);
          const Tensor y = ops::max_pool2d(x, o);
          const Expected expected = max_pool(values, s, y.dim(2), y.dim(3), o);
          std::vector<float> dy(static_cast<std::size_t>(y.elements()));
          for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<float>(i + 1);
          const Tensor above = Tensor::of(y.shape(), dy, device);
          with_upstream(y, above).backward();
          const auto got = y.to_vector();
          ASSERT_EQ(got.size(), expected.y.size());
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_TRUE(got[i] == expected.y[i] || (std::isnan(got[i]) && std::isnan(expected.y[i]))) << i;
          ASSERT_EQ(leaf->grad.to_vector(), expected.dx);
          NoGrad no_grad;
          const auto again = ops::max_pool2d(x, o).to_vector();
          for (std::size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(got[i] == again[i] || std::isnan(got[i])) << i;
        }
}

/// Value by value, as kernels see it: [images][h][w][width]. dx is that of dy = y.
void pool_one_by_one(std::vector<float>& y, std::vector<std::uint8_t>& index, std::vector<float>& dx,
                     const std::vector<float>& x, const PoolShape& s) {
  std::fill(dx.begin(), dx.end(), 0.0f);
  std::size_t out = 0;
  for (std::int64_t n = 0; n < s.images; ++n)
    for (std::int64_t oh = 0; oh < s.out_h; ++oh)
      for (std::int64_t ow = 0; ow < s.out_w; ++ow)
        for (std::int64_t c = 0; c < s.width; ++c, ++out) {
          std::int64_t best = -1;
          for (int place = 0; place < s.kernel * s.kernel; ++place) {
            const std::int64_t h = oh * s.stride - s.pad + place / s.kernel,
                               w = ow * s.stride - s.pad + place % s.kernel;
            if (h < 0 || w < 0 || h >= s.h || w >= s.w) continue;
            const std::int64_t at = ((n * s.h + h) * s.w + w) * s.width + c;
            if (best < 0 || x[at] > x[best]) best = at, index[out] = static_cast<std::uint8_t>(place);
          }
          y[out] = x[best];
          dx[best] += y[out];
        }
}

TEST(MaxPool, HasTheSameBitsWithVectorsOfAnyProcessor) {
  Random random(3, Purpose::test);
  for (std::int64_t width : {1, 4, 6, 8, 11, 16, 40})
    for (const PoolShape& s : {PoolShape{3, 8, 10, 4, 5, width, 2, 2, 0},
                               {2, 5, 7, 2, 3, width, 2, 2, 0},
                               {2, 6, 6, 3, 3, width, 3, 2, 1}}) {
      const std::size_t in = static_cast<std::size_t>(s.images * s.h * s.w * width),
                        out = static_cast<std::size_t>(s.images * s.out_h * s.out_w * width);
      std::vector<float> x(in), y[3], dx[3];
      std::vector<std::uint8_t> index[3];
      for (float& v : x) v = static_cast<float>(random.below(5));
      for (int i = 0; i < 3; ++i) y[i].resize(out), index[i].resize(out), dx[i].resize(in, NAN);
      pool_one_by_one(y[2], index[2], dx[2], x, s);
      cpu::max_pool_forward(y[0].data(), index[0].data(), x.data(), s);
      cpu::max_pool_backward(dx[0].data(), y[0].data(), index[0].data(), s);
      cpu::max_forward_lanes(y[1].data(), index[1].data(), x.data(), s, s.images);
      cpu::max_backward_lanes(dx[1].data(), y[1].data(), index[1].data(), s, s.images);
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(y[i], y[2]) << width;
        EXPECT_EQ(index[i], index[2]) << width;
        EXPECT_EQ(dx[i], dx[2]) << width;
      }
    }
}

TEST(Pools, GiveTheSameBitsForAnyNumberOfThreads) {
  Random random(2, Purpose::test);
  std::vector<float> values(static_cast<std::size_t>(16 * 6 * 28 * 28));
  for (float& v : values) v = random.normal();
  const Tensor x = Tensor::of({16, 6, 28, 28}, values);
  const auto run = [&] {
    auto leaf = std::make_shared<Leaf>();
    const Tensor in = with_gradient(x, leaf);
    const Tensor y = ops::adaptive_avg_pool2d(
        ops::avg_pool2d(ops::max_pool2d(in, {.kernel = 2}), {.kernel = 3, .stride = 1, .pad = 1}), 1, 1);
    with_upstream(y, y).backward();
    return std::pair(y.to_vector(), leaf->grad.to_vector());
  };
  const auto one = run();
  set_kernel_threads(2);
  const auto two = run();
  set_kernel_threads(1);
  EXPECT_EQ(one, two);
}

}  // namespace
}  // namespace laconic
