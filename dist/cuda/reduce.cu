#include "core/cuda/launch.cuh"
#include "dist/cuda/reduce.h"

namespace laconic::dist::cuda {
namespace {

using laconic::cuda::map;

/// y[i] = f(a[i], b[i]): four at a time where all pointers are aligned for it. y may be a or b.
template <class F>
void combine(float* y, const float* a, const float* b, std::int64_t n, F f) {
  const auto bits =
      reinterpret_cast<std::uintptr_t>(y) | reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b);
  const std::int64_t fours = bits % sizeof(float4) == 0 ? n / 4 : 0, rest = 4 * fours;
  auto* const y4 = reinterpret_cast<float4*>(y);
  const auto* const a4 = reinterpret_cast<const float4*>(a);
  const auto* const b4 = reinterpret_cast<const float4*>(b);
  map(fours, [=] __device__(std::int64_t i) {
    const float4 u = a4[i], v = b4[i];
    y4[i] = make_float4(f(u.x, v.x), f(u.y, v.y), f(u.z, v.z), f(u.w, v.w));
  });
  map(n - rest, [=] __device__(std::int64_t i) { y[rest + i] = f(a[rest + i], b[rest + i]); });
}

struct Add {
  __device__ float operator()(float sum, float addend) const { return sum + addend; }
};
struct Left {
  __device__ float operator()(float x, float sent) const {
    const float left = x - sent;
    return left - left == 0.0f ? left : 0.0f;
  }
};

}  // namespace

void add(float* sum, const float* addend, std::int64_t n) { combine(sum, sum, addend, n, Add{}); }

void keep_left(float* left, const float* x, const float* sent, std::int64_t n) { combine(left, x, sent, n, Left{}); }

}  // namespace laconic::dist::cuda
