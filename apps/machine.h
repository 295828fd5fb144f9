#pragma once
#include <cstdint>
#include <string>

#include "core/device.h"

namespace laconic {

/// Where a figure was measured: "AMD EPYC 9005, 2 cores, avx512; g++ 12.2.0"; on a GPU its name stands in front.
std::string machine(Device device = kCpu);

/// How many kernel threads each of so many workers has unless it is told: the cores, shared among those that are here.
int default_threads(int workers);

/// Bytes of memory that this process can still have: what the system calls available, or, where that is less, the
/// limit of a control group that the process is in. 0 where the system does not say.
std::uint64_t memory_available();

}  // namespace laconic
