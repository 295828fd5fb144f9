#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "core/device.h"
#include "dist/transport/link.h"
#include "dist/world.h"

namespace laconic {

/// Where a figure was measured: "AMD EPYC 9005, 2 cores, avx512; g++ 12.2.0"; "2 of 16 cores" where
/// this process may use fewer; on a GPU its name stands in front.
std::string machine(Device device = kCpu);

/// What figures that are measured now hold for: this build, this processor, and the network.
///   emulated : between threads; nothing: messages go from thread to thread, or are MPI's
std::string calibrated_here(const std::optional<dist::LinkOptions>& emulated);

/// Returns VALUE of a file's first line "NAME  : VALUE", as /proc/cpuinfo has them; "" if there is none.
std::string field_of(const std::string& path, const std::string& name);

/// The name of this machine in its network.
std::string host_name();

/// How many kernel threads this rank has unless it is told: its share of the processors that the ranks on its machine
/// may use (fair_share). A meeting of all ranks where they are processes: all of them call it.
int default_threads(const dist::Worker& worker);

/// Bytes of memory that this process can still have: what the system calls available, or, where that is less, the
/// limit of a control group that the process is in. 0 where the system does not say.
///   root  stands in front of /proc and /sys: a test's folder
std::uint64_t memory_available(const std::string& root = "");
/// Bytes of memory that this process has taken; 0 where nobody knows.
std::uint64_t memory_taken();

}  // namespace laconic
