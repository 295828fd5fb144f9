#pragma once
#include <atomic>

#include "core/tensor.h"

/// With how many bits a CUDA device multiplies in matrix products, convolutions and recurrent layers. Sums are float32
/// always, and so are parameters, their gradients and all other arithmetic. The CPU knows fp32 alone.
namespace laconic {

enum class Precision : std::uint8_t {
  fp32,  ///< float32 as it is: no tensor cores
  tf32,  ///< tensor cores read float32 with 10 bits of mantissa
  bf16,  ///< operands are rounded to bfloat16 (8 bits of exponent, 7 of mantissa): half the memory to read, the
         ///< fastest; a convolution's result is rounded so too, and stays so until a layer computes in float32. cuDNN
         ///< also rounds what a batch adds to the gradient of a convolution's weights, once
};
inline const char* to_string(Precision precision) {
  constexpr const char* kNames[] = {"fp32", "tf32", "bf16"};
  return kNames[static_cast<std::size_t>(precision)];
}

/// For the whole program; fp32 at first. What was recorded under one is differentiated under the same, where rounded
/// operands were kept for it: set it before training, not within a step.
inline std::atomic<Precision> chosen_precision{Precision::fp32};
inline void set_matmul_precision(Precision precision) { chosen_precision = precision; }
inline Precision matmul_precision() { return chosen_precision; }

/// What products on a device read: bf16 on a CUDA device that was told so, else f32.
inline DType product_dtype(Device device) {
  return device.kind == Device::Kind::cuda && matmul_precision() == Precision::bf16 ? DType::bf16 : DType::f32;
}

}  // namespace laconic
