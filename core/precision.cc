#include "core/precision.h"

#include <atomic>

namespace laconic {

static std::atomic<Precision> chosen{Precision::fp32};

const char* to_string(Precision precision) {
  constexpr const char* kNames[] = {"fp32", "tf32", "bf16"};
  return kNames[static_cast<std::size_t>(precision)];
}

void set_matmul_precision(Precision precision) { chosen = precision; }
Precision matmul_precision() { return chosen; }

DType product_dtype(Device device) {
  return device.kind == Device::Kind::cuda && matmul_precision() == Precision::bf16 ? DType::bf16 : DType::f32;
}

}  // namespace laconic
