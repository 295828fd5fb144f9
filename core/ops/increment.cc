#include "core/ops/increment.h"

#include "core/cpu/elementwise.h"
#include "core/cuda/elementwise.h"
#include "core/dispatch.h"

namespace laconic::ops {

void increment(const Tensor& counter) {
  LACONIC_KERNEL(counter.device(), increment(counter.data<std::int64_t>()));
  counter.bump_version();
}

}  // namespace laconic::ops
