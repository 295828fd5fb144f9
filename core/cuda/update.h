#pragma once
#include "core/cpu/update.h"

/// As core/cpu/update.h on the selected device.
namespace laconic::cuda {

void sgd(float* w, const float* g, float* buffer, std::int64_t n, const cpu::SgdStep& s);
void adam(float* w, const float* g, float* m, float* v, std::int64_t n, const cpu::AdamStep& s);
void clamp(float* x, float limit, std::int64_t n);

}  // namespace laconic::cuda
