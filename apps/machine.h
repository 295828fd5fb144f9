#pragma once
#include <string>

#include "core/device.h"

namespace laconic {

/// Where a figure was measured: "AMD EPYC 9005, 2 cores, avx512; g++ 12.2.0"; on a GPU its name stands in front.
std::string machine(Device device = kCpu);

}  // namespace laconic
