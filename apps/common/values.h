#pragma once
#include <string>
#include <vector>

#include "core/tensor.h"

namespace laconic {

/// What is measured on, by name: one of `distributions`, of these,
///   uniform     [-1, 1)
///   normal      mean 0, variance 1
///   laplace     mean 0, scale 1
///   heavy       normal, times a factor for each 4096 neighbours whose logarithm is normal with deviation 2: as layers
///               and filters differ
///   alexnet, hdc  gradients whose magnitudes fall into INCEPTIONN's classes at 2^-10 as often as its Table III says
///   whole       from 1 to 2: for INCEPTIONN nothing of it shrinks
/// or
///   a path      float32 values as they lie in the file, or the tensor TENSOR of FILE.safetensors as
///               FILE.safetensors:TENSOR (of one tensor without its name), or all files NAME.f32 of a folder
/// Drawn values depend on (name, elements) alone. With elements 0 a file gives as many as it has. Runs on
/// kernel_threads() threads.
/// throws UsageError: unknown name; DataError: the file cannot be read, has fewer elements, or none
Tensor values_named(const std::string& name, std::int64_t elements, const std::vector<std::string>& distributions);
/// "uniform", "normal", "laplace", "heavy"
const std::vector<std::string>& select_distributions();
/// What a selection is measured on.
inline Tensor select_data(const std::string& name, std::int64_t elements) {
  return values_named(name, elements, select_distributions());
}

/// The float32 values of a file: raw, or a tensor of a safetensors file; or all in the files NAME.f32 of a folder.
/// throws DataError: not there, of a length that is no multiple of 4, no such tensor, not float32, without values
Tensor read_values(const std::string& path, const std::string& tensor);

/// A copy of x on a device.
inline Tensor copied_to(const Tensor& x, Device device) {
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), device);
  y.copy_from(x);
  return y;
}

}  // namespace laconic
