#pragma once
#include "core/error.h"
#include "core/memory.h"

namespace laconic {

/// Runs a kernel where the memory lies. `device` is that of its operands; for the trap device the CPU kernel runs with
/// host access granted for just that time.
template <class F>
decltype(auto) on_device(Device device, F&& cpu_kernel) {
  if (device.kind == Device::Kind::cpu) [[likely]]
    return cpu_kernel();
  require<Error>(device.kind == Device::Kind::trap, "device ", device, ": this build has no CUDA. Use cpu.");
  HostAccess access(device);
  return cpu_kernel();
}

}  // namespace laconic
