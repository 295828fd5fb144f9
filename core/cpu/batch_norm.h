#pragma once
#include "core/cpu/layout.h"

/// Batch normalisation with addition and ReLU folded into its two passes, each way. Own kernels, because oneDNN's write
/// past the caches, so that the next convolution reads from memory (10 % of a ResNet-20 step).
/// Sums go by fixed chunks of rows, floats within a chunk and doubles across: the same for any number of threads.
namespace laconic::cpu {

struct BatchNormParameters {
  const float *gamma, *beta;          ///< [C]
  float *running_mean, *running_var;  ///< [C]; they change in training
  bool training;                      ///< else the running statistics are taken
  float momentum, epsilon;
};
/// stats [4, C] = mean, 1 / sqrt(variance + epsilon), and scale and offset for batch_norm_apply. The (biased) variance
/// of the batch is computed around the running mean, against cancellation.
void batch_norm_statistics(float* stats, const float* x, const ChannelView& v, const BatchNormParameters& p);

/// y = x * scale[c] + offset[c] (+ residual), then ReLU if asked. residual may be null. y may be x.
void batch_norm_apply(float* y, const float* x, const ChannelView& v, const float* scale, const float* offset,
                      const float* residual, bool relu);

struct BatchNormBackward {
  const float *stats, *gamma;      ///< stats of the forward pass [4, C]
  bool training;                   ///< else mean and variance are constants
  float *dgamma, *dbeta;           ///< [C]; null: not wanted
  bool add_to_gamma, add_to_beta;  ///< to what is there
};
/// First backward pass: g = (dy + dy2) where y > 0 (y null: everywhere), dgamma and dbeta, and coefficients [3, C] for
/// the second. dy2 may be null; g may be dy.
void batch_norm_backward_sums(float* g, float* coefficients, const float* dy, const float* dy2, const float* y,
                              const float* x, const ChannelView& v, const BatchNormBackward& b);

/// Second backward pass: dx = coefficients[0][c] * g + [1][c] * x + [2][c]. dx may be g.
void batch_norm_backward_data(float* dx, const float* g, const float* x, const ChannelView& v,
                              const float* coefficients);

/// Those of one channel: dx = gamma/sigma (g - mean(g) - xhat mean(g xhat)), with xhat = (x - mean)/sigma,
/// as a g + b x + d.   sum_g = sum g,   sum_gx = sum g * (x - mean)
struct BatchNormCoefficients {
  float a, b = 0, d = 0;
  constexpr BatchNormCoefficients(float gamma, float mean, float inverse, float sum_g, float sum_gx,
                                  std::int64_t values, bool training)
      : a(gamma * inverse) {
    if (!training) return;
    b = -a * inverse * inverse * sum_gx / static_cast<float>(values);
    d = -a * sum_g / static_cast<float>(values) - b * mean;
  }
};

}  // namespace laconic::cpu
