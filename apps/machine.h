#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/device.h"
#include "dist/transport/link.h"

namespace laconic {

/// Where a figure was measured: "AMD EPYC 9005, 2 cores, avx512; g++ 12.2.0"; on a GPU its name stands in front.
std::string machine(Device device = kCpu);

/// What figures that are measured now hold for: this build, this processor, and the network.
///   emulated : between threads; nothing: messages go from thread to thread, or are MPI's
std::string calibrated_here(const std::optional<dist::LinkOptions>& emulated);

/// How many kernel threads each of so many workers has unless it is told: the cores, shared among those that are here.
int default_threads(int workers);

/// Bytes of memory that this process can still have: what the system calls available, or, where that is less, the
/// limit of a control group that the process is in. 0 where the system does not say.
///   root  stands in front of /proc and /sys: a test's folder
std::uint64_t memory_available(const std::string& root = "");
/// Bytes of memory that this process has taken; 0 where nobody knows.
std::uint64_t memory_taken();

/// How many cores' time the control groups leave to this process, as 1.5; 0: they do not limit it. `root`: as above.
double cores_of_groups(const std::string& root = "");

}  // namespace laconic
