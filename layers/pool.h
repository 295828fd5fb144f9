#pragma once
#include "core/ops/pool.h"
#include "layers/module.h"

namespace laconic {

/// Largest value of each kernel x kernel window.   x : [N, C, H, W]  ->  y : [N, C, H', W'],
///   H' = (H + 2 pad - kernel) / stride + 1, rounded down (up with ceil_mode).   stride 0: the same as kernel
/// Throws ShapeError if x is not 4-d or smaller than a window, or pad > kernel / 2.
class MaxPool2d final : public Module {
 public:
  struct Options {
    int kernel = 2, stride = 0, pad = 0;
    bool ceil_mode = false;
  };
  explicit MaxPool2d(Options o) : o_{.kernel = o.kernel, .stride = o.stride, .pad = o.pad, .ceil_mode = o.ceil_mode} {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::max_pool2d(x, o_); }

 private:
  ops::PoolOptions o_;
};

/// Mean of each window; shapes as MaxPool2d. With count_include_pad the padding's zeros count as values.
class AvgPool2d final : public Module {
 public:
  using Options = ops::PoolOptions;
  explicit AvgPool2d(Options o) : o_(o) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::avg_pool2d(x, o_); }

 private:
  Options o_;
};

/// Mean over windows that make the output [N, C, out_h, out_w] whatever the input; 1 x 1 is the global average.
class AdaptiveAvgPool2d final : public Module {
 public:
  struct Options {
    int out_h = 1, out_w = 1;
  };
  explicit AdaptiveAvgPool2d(Options o) : o_(o) {}

 protected:
  Tensor forward(const Tensor& x) override { return ops::adaptive_avg_pool2d(x, o_.out_h, o_.out_w); }

 private:
  Options o_;
};

}  // namespace laconic
