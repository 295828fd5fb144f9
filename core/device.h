#pragma once
#include <ostream>
#include <string>

namespace laconic {

/// Where memory lies and kernels run.
///   cpu    host memory
///   trap   host memory that faults unless a kernel of core/ is running: proves in tests that nothing above core/cpu/
///          touches memory directly, so that a real accelerator can take its place
///   cuda   a CUDA device (needs a build with CUDA)
struct Device {
  enum class Kind : unsigned char { cpu, trap, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{};
inline constexpr Device kTrap{Device::Kind::trap, 0};

/// "cpu", "trap", "cuda:0"
std::string to_string(Device device);
inline std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace laconic
