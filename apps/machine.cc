#include "apps/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "apps/version.h"
#include "core/stream.h"
#include "dist/trainer/checkpoint.h"
#include "dist/world.h"

namespace laconic {

std::string machine(Device device) {
  std::ifstream in("/proc/cpuinfo");
  std::string line, cpu = "unknown processor";
  while (std::getline(in, line))
    if (line.rfind("model name", 0) == 0) {
      cpu = line.substr(line.find(':') + 2);
      break;
    }
  if (device.kind == Device::Kind::cuda) cpu = cuda_device_name(device.index) + "; " + cpu;
  return fmt::format("{}, {} cores, {}; g++ {}", cpu, std::thread::hardware_concurrency(), instruction_set(),
                     __VERSION__);
}

std::string calibrated_here(const std::optional<dist::LinkOptions>& emulated) {
  const std::string network = dist::ranks_under_mpirun() > 0 ? "MPI" : emulated ? emulated->to_string() : "threads";
  return fmt::format("{} {}; {}; {}", version(), commit(), machine(), network);
}

int default_threads(int workers) {
  const int cores = std::max(1u, std::thread::hardware_concurrency());
  const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const int here = local ? std::max(1, std::atoi(local)) : workers;
  return std::max(1, cores / here);
}

std::uint64_t memory_available() {
  std::uint64_t least = 0;
  const auto limit = [&](std::uint64_t bytes) { least = least == 0 ? bytes : std::min(least, bytes); };
  std::string line;
  for (std::ifstream in("/proc/meminfo"); std::getline(in, line);)
    if (std::uint64_t kib = 0; std::sscanf(line.c_str(), "MemAvailable: %" SCNu64, &kib) == 1) limit(kib << 10);
  for (std::ifstream in("/proc/self/cgroup"); std::getline(in, line);) {  // number:controllers:path; none: version 2
    const auto first = line.find(':'), second = line.find(':', first + 1);
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (second == std::string::npos || (!controllers.empty() && controllers != "memory")) continue;
    const std::string root = controllers.empty() ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory";
    const char* const name = controllers.empty() ? "/memory.max" : "/memory.limit_in_bytes";
    std::string path = line.substr(second + 1);
    for (std::size_t slash = 0; slash != std::string::npos;) {  // the group, and those that it is in
      if (std::uint64_t bytes = 0; std::ifstream(root + path + name) >> bytes) limit(bytes);
      slash = path.rfind('/');
      path.resize(std::min(slash, path.size()));
    }
  }
  return least;
}

}  // namespace laconic
