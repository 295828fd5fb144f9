#include "core/ops/increment.h"

#include "core/dispatch.h"

namespace laconic::ops {

void increment(const Tensor& counter) {
  on_device(counter.device(), [&] { ++*counter.data<std::int64_t>(); });
  counter.bump_version();
}

}  // namespace laconic::ops
