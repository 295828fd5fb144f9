#include "dist/collective/reduce.h"

#include "core/cpu/simd.h"
#include "core/dispatch.h"
#include "dist/cuda/reduce.h"

namespace laconic::dist {
namespace {

LACONIC_MULTIVERSION void add_loop(float* LACONIC_RESTRICT sum, const float* LACONIC_RESTRICT addend, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += addend[i];
}

}  // namespace

void add_in_place(Slice<float> sum, Slice<const float> addend) {
  if (sum.data() == nullptr || addend.data() == nullptr) return;
  on_device(
      sum.device(), [&] { add_loop(sum.data(), addend.data(), sum.size()); },
      [&] { cuda::add(sum.data(), addend.data(), static_cast<std::int64_t>(sum.size())); });
}

}  // namespace laconic::dist
