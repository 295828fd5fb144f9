#pragma once
#include <functional>

#include "core/device.h"

namespace laconic {

/// Seconds that a CUDA device takes for what f asks of it, by its own clock. Waits for its end.
double device_seconds(Device device, const std::function<void()>& f);

}  // namespace laconic
