#pragma once
#include <ostream>
#include <string>

namespace laconic {

/// Where memory lies and kernels run.
///   cpu    host memory
///   trap   host memory that faults unless a kernel of core/ is running: proves in tests that nothing above core/cpu/
///          touches memory directly, so that a real accelerator can take its place
///   ghost  no memory and no kernels: tensors have shapes and sizes but no values, so that a model's shapes, work and
///          memory are known without computing. memory_stats() counts their exact sizes; copies to or from them do
///          nothing, and what is read of them is zero
///   cuda   a CUDA device (needs a build with CUDA)
struct Device {
  enum class Kind : unsigned char { cpu, trap, ghost, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr Device kCpu{};
inline constexpr Device kTrap{Device::Kind::trap, 0};
inline constexpr Device kGhost{Device::Kind::ghost, 0};

/// "cpu", "trap", "ghost", "cuda:0"
std::string to_string(Device device);
inline std::ostream& operator<<(std::ostream& out, Device device) { return out << to_string(device); }

}  // namespace laconic
