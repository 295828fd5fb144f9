#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "core/slice.h"

namespace laconic::compress {

/// What one number says of a layer's gradient: the mean of the magnitudes, their sum, or the 2-norm.
enum class LayerNorm : std::uint8_t { mean, l1, l2 };
const char* to_string(LayerNorm norm);
/// throws UsageError (suggests the nearest), naming `where`
LayerNorm layer_norm_named(const std::string& name, const std::string& where);

/// Adds up what norms are made of, in double and in an order (compress/ordered_sum.h) that gives the same bits on every
/// device. For a CUDA device the host waits.
///   accumulated  afterwards += gradient; where it is empty, nothing had been put by and it is left alone
///   source       LayerDrop eq 1 (accum += g)
///   cost         one pass
double accumulate_layer(Slice<const float> gradient, Slice<float> accumulated, LayerNorm norm);

/// The value of a layer, or of several slices of one whose sums are added: eq 2 (settled: with magnitudes).
double layer_value(double sum, std::int64_t elements, LayerNorm norm);

struct LayerSize {
  double value = 0;  ///< layer_value
  std::int64_t elements = 0;
};

/// The value that the largest layers have at least which together make up a little more than a share of 1 - R: layers
/// are taken from the largest value down until their elements exceed (1 - R) of all, and the last one's value is the
/// threshold. What is below it is dropped. Nothing to be found: -1, which drops none.
/// source : LayerDrop Algorithm 1 (settled: R is the share dropped; value and threshold by the same norm)
/// throws UsageError if the ratio is not in [0, 1).   NaN counts as larger than all, so that it is not kept at home
double drop_threshold(std::span<const LayerSize> layers, double drop_ratio);

}  // namespace laconic::compress
