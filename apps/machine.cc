#include "apps/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "apps/version.h"
#include "core/processor.h"
#include "core/stream.h"
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
  return fmt::format("{}, {} cores, {}; g++ {}", cpu, std::thread::hardware_concurrency(), cpu::instruction_set(),
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

namespace {

/// Calls visit(folder, version 2?) for the control groups that the process is in by a controller, and those around
/// them.
template <class Visit>
void for_groups(const std::string& root, const std::string& controller, Visit visit) {
  std::string line;
  for (std::ifstream in(root + "/proc/self/cgroup");
       std::getline(in, line);) {  // number:controllers:path; none: version 2
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find("," + controller + ",") == std::string::npos) continue;
    const std::string top = root + (unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller);
    std::string path = line.substr(second + 1);
    for (std::size_t slash = 0; slash != std::string::npos;) {
      visit(top + path, unified);
      slash = path.rfind('/');
      path.resize(std::min(slash, path.size()));
    }
  }
}

}  // namespace

std::uint64_t memory_available(const std::string& root) {
  std::uint64_t least = 0;
  const auto limit = [&](std::uint64_t bytes) { least = least == 0 ? bytes : std::min(least, bytes); };
  std::string line;
  for (std::ifstream in(root + "/proc/meminfo"); std::getline(in, line);)
    if (std::uint64_t kib = 0; std::sscanf(line.c_str(), "MemAvailable: %" SCNu64, &kib) == 1) limit(kib << 10);
  for_groups(root, "memory", [&](const std::string& group, bool unified) {
    std::uint64_t bytes = 0;
    if (std::ifstream(group + (unified ? "/memory.max" : "/memory.limit_in_bytes")) >> bytes) limit(bytes);
  });
  return least;
}

std::uint64_t memory_taken() {
  std::uint64_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

double cores_of_groups(const std::string& root) {
  double least = 0;
  for_groups(root, "cpu", [&](const std::string& group, bool unified) {
    double quota = 0, period = 0;  // us of all cores together; without a limit the quota is the word max, or -1
    if (unified)
      std::ifstream(group + "/cpu.max") >> quota >> period;
    else
      std::ifstream(group + "/cpu.cfs_quota_us") >> quota, std::ifstream(group + "/cpu.cfs_period_us") >> period;
    if (quota > 0 && period > 0) least = least == 0 ? quota / period : std::min(least, quota / period);
  });
  return least;
}

}  // namespace laconic
