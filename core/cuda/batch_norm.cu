#include "core/cuda/columns.cuh"
#include "core/kernels/images.h"
// Below the others, which say for which device.
#include "core/kernels/batch_norm.cuh"

namespace laconic::cuda {
namespace {

// Each struct is what a walk over columns asks for (core/cuda/columns.cuh): at<kWide>(column) reads what a thread needs
// of its channels, once.

/// d and d^2, d = x - shift.
template <class Real>
struct Statistics {
  static constexpr bool kStores = false;
  static constexpr int kSums = 2, kWide = kPerMove<Real>;
  const Real* x;
  template <int kWide>
  struct At {
    const Real* x;
    Pack<float, kWide> shift;
    __device__ void operator()(std::int64_t i, float (&sums)[2][kWide]) const {
      const Pack<float, kWide> p = load_pack<kWide>(x + i);
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        const float d = p.v[k] - shift.v[k];
        sums[0][k] += d;
        sums[1][k] += d * d;
      }
    }
  };
  template <int kWide>
  __device__ At<kWide> at(std::int64_t column) const {
    return {x, load_pack<kWide>(x + column)};  // the first row, as on the CPU
  }
};

/// y = x scale + offset (+ residual), then ReLU.
template <class Real, bool kRelu, bool kResidual>
struct Apply {
  static constexpr int kWide = kPerMove<Real>;
  Real* y;
  const Real *x, *residual;
  const float *scale, *offset;
  template <int kWide>
  struct At {
    Apply a;
    Pack<float, kWide> scale, offset;
    __device__ void operator()(std::int64_t i) const {
      Pack<float, kWide> p = load_pack<kWide>(a.x + i), r{};
      if (kResidual) r = load_pack<kWide>(a.residual + i);
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        float value = p.v[k] * scale.v[k] + offset.v[k];
        if (kResidual) value += r.v[k];
        p.v[k] = kRelu && value < 0.0f ? 0.0f : value;
      }
      store_pack<kWide>(a.y + i, p);
    }
  };
  template <int kWide>
  __device__ At<kWide> at(std::int64_t column) const {
    return {*this, load_pack<kWide>(scale + column), load_pack<kWide>(offset + column)};
  }
};

/// g = (dy + dy2) where y > 0, written unless it is dy as it was; sums of g and g (x - mean).
template <class Real, bool kPair, bool kRelu>
struct Sums {
  static constexpr bool kStores = true;
  static constexpr int kSums = 2, kWide = kPerMove<Real>;
  Real* g;
  const Real *dy, *dy2, *y, *x;
  const float* mean;
  template <int kWide>
  struct At {
    Sums s;
    Pack<float, kWide> mean;
    __device__ void operator()(std::int64_t i, float (&sums)[2][kWide]) const {
      Pack<float, kWide> d = load_pack<kWide>(s.dy + i), other{}, out{};
      const Pack<float, kWide> pixel = load_pack<kWide>(s.x + i);
      if (kPair) other = load_pack<kWide>(s.dy2 + i);
      if (kRelu) out = load_pack<kWide>(s.y + i);
#pragma unroll
      for (int k = 0; k < kWide; ++k) {
        if (kPair) d.v[k] += other.v[k];
        if (kRelu) d.v[k] = out.v[k] > 0.0f ? d.v[k] : 0.0f;
        sums[0][k] += d.v[k];
        sums[1][k] += d.v[k] * (pixel.v[k] - mean.v[k]);
      }
      if (kPair || kRelu || s.g != s.dy) store_pack<kWide>(s.g + i, d);
    }
  };
  template <int kWide>
  __device__ At<kWide> at(std::int64_t column) const {
    return {*this, load_pack<kWide>(mean + column)};
  }
};

/// dx = a g + (b x + d)
template <class Real>
struct Data {
  static constexpr int kWide = kPerMove<Real>;
  Real* dx;
  const Real *g, *x;
  const float *a, *b, *d;
  template <int kWide>
  struct At {
    Real* dx;
    const Real *g, *x;
    Pack<float, kWide> a, b, d;
    __device__ void operator()(std::int64_t i) const {
      Pack<float, kWide> p = load_pack<kWide>(g + i);
      const Pack<float, kWide> pixel = load_pack<kWide>(x + i);
#pragma unroll
      for (int k = 0; k < kWide; ++k) p.v[k] = a.v[k] * p.v[k] + (b.v[k] * pixel.v[k] + d.v[k]);
      store_pack<kWide>(dx + i, p);
    }
  };
  template <int kWide>
  __device__ At<kWide> at(std::int64_t column) const {
    return {dx, g, x, load_pack<kWide>(a + column), load_pack<kWide>(b + column), load_pack<kWide>(d + column)};
  }
};

std::int64_t rows_of(const ChannelView& v) { return v.outer * v.rows; }

template <bool kRelu, bool kResidual, class Real>
void apply(Real* y, const Real* x, const ChannelView& v, const float* scale, const float* offset,
           const Real* residual) {
  walk_columns(rows_of(v), v.width, aligned_for<kPerMove<Real>>(y, x, scale, offset, residual),
               Apply<Real, kRelu, kResidual>{y, x, residual, scale, offset});
}

}  // namespace

template <class Real>
void batch_norm_statistics(float* stats, const Real* x, const ChannelView& v, const BatchNormParameters& given) {
  const BatchNormParameters p = given;
  const std::int64_t channels = v.width, values = rows_of(v);
  if (!p.training || values == 0)
    return map(channels, [=] __device__(std::int64_t c) {
      finish_channel(stats, channels, c, p.running_mean[c], p.running_var[c], p);
    });
  sum_columns(values, channels, aligned_for<kPerMove<Real>>(x), Statistics<Real>{x},
              [=] __device__(std::int64_t c, const double* totals) {
                finish_batch(stats, channels, c, load_pack<1>(x + c).v[0], totals[0], totals[1], values, p);
              });
}

template <class Real>
void batch_norm_apply(Real* y, const Real* x, const ChannelView& v, const float* scale, const float* offset,
                      const Real* residual, bool relu) {
  if (relu)
    residual ? apply<true, true>(y, x, v, scale, offset, residual)
             : apply<true, false>(y, x, v, scale, offset, residual);
  else
    residual ? apply<false, true>(y, x, v, scale, offset, residual)
             : apply<false, false>(y, x, v, scale, offset, residual);
}

template <class Real>
void batch_norm_backward_sums(Real* g, float* coefficients, const Real* dy, const Real* dy2, const Real* y,
                              const Real* x, const ChannelView& v, const BatchNormBackward& given) {
  const BatchNormBackward b = given;
  const std::int64_t channels = v.width, values = rows_of(v);
  const float* mean = b.stats;
  const auto done = [=] __device__(std::int64_t c, const double* totals) {
    finish_gradients(coefficients, channels, c, static_cast<float>(totals[0]), static_cast<float>(totals[1]), values,
                     b);
  };
  const bool aligned = aligned_for<kPerMove<Real>>(g, dy, dy2, y, x, mean);
  if (dy2 && y) return sum_columns(values, channels, aligned, Sums<Real, true, true>{g, dy, dy2, y, x, mean}, done);
  if (dy2) return sum_columns(values, channels, aligned, Sums<Real, true, false>{g, dy, dy2, y, x, mean}, done);
  if (y) return sum_columns(values, channels, aligned, Sums<Real, false, true>{g, dy, dy2, y, x, mean}, done);
  sum_columns(values, channels, aligned, Sums<Real, false, false>{g, dy, dy2, y, x, mean}, done);
}

template <class Real>
void batch_norm_backward_data(Real* dx, const Real* g, const Real* x, const ChannelView& v, const float* coefficients) {
  const float *a = coefficients, *b = a + v.width, *d = b + v.width;
  walk_columns(rows_of(v), v.width, aligned_for<kPerMove<Real>>(dx, g, x, a), Data<Real>{dx, g, x, a, b, d});
}

#define LACONIC_INSTANTIATE(Real)                                                                                 \
  template void batch_norm_statistics(float*, const Real*, const ChannelView&, const BatchNormParameters&);       \
  template void batch_norm_apply(Real*, const Real*, const ChannelView&, const float*, const float*, const Real*, \
                                 bool);                                                                           \
  template void batch_norm_backward_sums(Real*, float*, const Real*, const Real*, const Real*, const Real*,       \
                                         const ChannelView&, const BatchNormBackward&);                           \
  template void batch_norm_backward_data(Real*, const Real*, const Real*, const ChannelView&, const float*);
LACONIC_INSTANTIATE(float)
LACONIC_INSTANTIATE(BFloat16)
#undef LACONIC_INSTANTIATE

}  // namespace laconic::cuda
