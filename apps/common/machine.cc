#include "apps/common/machine.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <fstream>

#include "apps/common/version.h"
#include "core/base/cores.h"
#include "core/base/processor.h"
#include "core/stream.h"
#include "dist/predict/calibration.h"
#include "dist/trainer/checkpointing.h"

namespace laconic {

std::string field_of(const std::string& path, const std::string& name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(name)) continue;
    const auto colon = line.find_first_not_of(" \t", name.size());
    if (colon == line.npos || line[colon] != ':') continue;
    const auto value = line.find_first_not_of(" \t", colon + 1);
    return value == line.npos ? "" : line.substr(value);
  }
  return "";
}

std::string machine(Device device) {
  std::string cpu = field_of("/proc/cpuinfo", "model name");
  if (cpu.empty()) cpu = "unknown processor";
  if (device.kind == Device::Kind::cuda) cpu = cuda_device_name(device.index) + "; " + cpu;
  const Cores cores = cores_of_process();
  const std::string fewer = cores.usable() < cores.online ? fmt::format("{} of ", cores.usable()) : "";
  return fmt::format("{}, {}{} cores, {}; g++ {}", cpu, fewer, cores.online, cpu::instruction_set(), __VERSION__);
}

std::string calibrated_here(const std::optional<dist::LinkOptions>& emulated) {
  const std::string network = dist::ranks_under_mpirun() > 0 ? "MPI" : emulated ? emulated->to_string() : "threads";
  return fmt::format("{} {}; {}; {}", version(), commit(), machine(), network);
}

int default_threads(const dist::Worker& worker) {
  const Cores own = cores_of_process();
  if (dist::ranks_under_mpirun() == 0)
    return fair_share(own, std::vector(static_cast<std::size_t>(worker.engine.size()), own));
  const std::string id = dist::machine_id() + " ";
  std::vector<Cores> here;
  for (const std::string& of_rank : meet(worker.engine, "agreement on processors", id + to_text(own)))
    if (of_rank.starts_with(id)) here.push_back(cores_from(of_rank.substr(id.size())));
  return fair_share(own, here);
}

std::uint64_t memory_available(const std::string& root) {
  std::uint64_t least = 0;
  const auto limit = [&](std::uint64_t bytes) { least = least == 0 ? bytes : std::min(least, bytes); };
  std::string line;
  for (std::ifstream in(root + "/proc/meminfo"); std::getline(in, line);)
    if (std::uint64_t kib = 0; std::sscanf(line.c_str(), "MemAvailable: %" SCNu64, &kib) == 1) limit(kib << 10);
  for_control_groups(root, "memory", [&](const std::string& group, bool unified) {
    std::uint64_t bytes = 0;
    if (std::ifstream(group + (unified ? "/memory.max" : "/memory.limit_in_bytes")) >> bytes) limit(bytes);
  });
  return least;
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::uint64_t memory_taken() {
  std::uint64_t all = 0, pages = 0;
  std::ifstream("/proc/self/statm") >> all >> pages;
  return pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace laconic
