#pragma once
#include <cstdint>

#include "core/tensor.h"

namespace laconic::cpu {

/// y (+)= x m for one matrix m and many x, one after another: m is copied once into the order that oneDNN's kernel
/// reads fastest. Worth it from about six products on (measured on Zen 5, 20 rows, 650 to 2600: 249 GFLOP/s where plain
/// weights give 175, and packing takes as long as 2.4 products). The kernel itself is kept per thread and shape.
///   x : [rows, in]   m : [in, out]   y : [rows, out]
class PackedMatmul {
 public:
  /// m is row-major; transposed: given as its transpose, [out, in]. add: y += instead of y =.
  PackedMatmul(const float* m, bool transposed, bool add, std::int64_t rows, std::int64_t in, std::int64_t out);
  void run(float* y, const float* x) const;

 private:
  struct Kernel;
  Kernel& kernel_;
  Tensor packed_;
};

}  // namespace laconic::cpu
