#include "apps/machine.h"

#include <fmt/format.h>

#include <fstream>
#include <thread>

#include "core/stream.h"
#include "dist/trainer/checkpoint.h"

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

}  // namespace laconic
