// What batch normalisation computes once per channel, written once: core/cpu/batch_norm.cc and core/cuda/batch_norm.cu
// include this.

namespace laconic::LACONIC_DEVICE {

/// Writes stats, from a mean and a variance.
__device__ inline void finish_channel(float* stats, std::int64_t channels, std::int64_t c, float mean, float variance,
                                      const BatchNormParameters& p) {
  const float inverse = 1.0f / sqrtf(variance + p.epsilon), scale = p.gamma[c] * inverse;
  stats[c] = mean;
  stats[channels + c] = inverse;
  stats[2 * channels + c] = scale;
  stats[3 * channels + c] = p.beta[c] - mean * scale;
}
/// Writes stats and moves the running statistics. sum, square : of x - shift and its square, over `values`
__device__ inline void finish_batch(float* stats, std::int64_t channels, std::int64_t c, float shift, double sum,
                                    double square, std::int64_t values, const BatchNormParameters& p) {
  const auto n = static_cast<double>(values);
  const double d = sum / n, v = square / n - d * d;
  const auto mean = static_cast<float>(shift + d), variance = static_cast<float>(v < 0.0 ? 0.0 : v);
  p.running_mean[c] += p.momentum * (mean - p.running_mean[c]);
  p.running_var[c] += p.momentum * (variance * static_cast<float>(n / (n - 1)) - p.running_var[c]);
  finish_channel(stats, channels, c, mean, variance, p);
}

/// Writes dgamma, dbeta and the coefficients of dx = gamma/sigma (g - mean(g) - xhat mean(g xhat)), with
/// xhat = (x - mean)/sigma, as a g + b x + d.   sum_g = sum g,   sum_gx = sum g * (x - mean), over `values`
__device__ inline void finish_gradients(float* coefficients, std::int64_t channels, std::int64_t c, float sum_g,
                                        float sum_gx, std::int64_t values, const BatchNormBackward& of) {
  const float mean = of.stats[c], inverse = of.stats[channels + c], n = static_cast<float>(values);
  if (of.dgamma) of.dgamma[c] = (of.add_to_gamma ? of.dgamma[c] : 0.0f) + sum_gx * inverse;
  if (of.dbeta) of.dbeta[c] = (of.add_to_beta ? of.dbeta[c] : 0.0f) + sum_g;
  const float a = of.gamma[c] * inverse, b = of.training ? -a * inverse * inverse * sum_gx / n : 0.0f;
  coefficients[c] = a;
  coefficients[channels + c] = b;
  coefficients[2 * channels + c] = of.training ? -a * sum_g / n - b * mean : 0.0f;
}

}  // namespace laconic::LACONIC_DEVICE
