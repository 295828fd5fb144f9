#pragma once
#include <type_traits>

#include "core/error.h"
#include "core/memory.h"

namespace laconic {

/// Runs a kernel where the memory lies. `device` is that of its operands; for the trap device the CPU kernel runs with
/// host access granted for just that time; for ghosts it does not run, and its result is zero.
template <class F>
decltype(auto) on_device(Device device, F&& cpu_kernel) {
  if (device.kind == Device::Kind::cpu) [[likely]]
    return cpu_kernel();
  if (device.kind == Device::Kind::ghost) {
    if constexpr (std::is_void_v<decltype(cpu_kernel())>)
      return;
    else
      return decltype(cpu_kernel()){};
  }
  require<Error>(device.kind == Device::Kind::trap, "device ", device, ": this build has no CUDA. Use cpu.");
  HostAccess access(device);
  return cpu_kernel();
}

}  // namespace laconic
