#include "core/precision.h"

#include <atomic>

namespace laconic {

static std::atomic<Precision> chosen{Precision::fp32};

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::tf32:
      return "tf32";
    case Precision::bf16:
      break;
  }
  return "bf16";
}

void set_matmul_precision(Precision precision) { chosen = precision; }
Precision matmul_precision() { return chosen; }

DType product_dtype(Device device) {
  return device.kind == Device::Kind::cuda && matmul_precision() == Precision::bf16 ? DType::bf16 : DType::f32;
}

}  // namespace laconic
