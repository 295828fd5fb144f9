#include "apps/bench/cuda/device_clock.h"

#include "core/cuda/device.h"
#include "core/dispatch.h"

namespace laconic {

double device_seconds(Device device, const std::function<void()>& f) {
  double seconds = 0;
  cuda_only([&] {
    cuda::select(device.index);
    const cuda::Mark begin = cuda::timed_mark();
    f();
    seconds = cuda::seconds_between(begin, cuda::timed_mark());
  });
  return seconds;
}

}  // namespace laconic
