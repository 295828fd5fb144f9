#pragma once
#include <cstdint>

#include "core/autograd.h"

namespace laconic {

struct DropoutMask;  // core/kernels/elementwise.h

inline namespace ops {

/// What a dropout mask is a function of, besides the element's place in its sample.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t layer = 0;  ///< unique in the model
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  ///< position of row 0 in the global batch
  bool time_first = false;        ///< x is [T, B, ...]: the samples are along B, and steps are elements of a sample
};

/// y = x / (1 - p) with probability 1 - p, else 0, per element.   dx = dy / (1 - p) where y was kept
/// The mask depends on (seed, layer, step, sample position, element in plain NCHW order) and on nothing else: the same
/// for any layout, number of threads, and number of workers that share the batch. Saves one byte per element.
///   source   Srivastava et al. 2014, with the scaling in training
/// Throws ShapeError unless 0 <= p < 1, or if time_first for less than two extents.
Tensor dropout(const Tensor& x, float p, const DropoutKey& key);

/// What kernels draw the mask from.
DropoutMask dropout_mask_of(float p, const DropoutKey& key);

}  // namespace ops
}  // namespace laconic
