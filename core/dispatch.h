#pragma once
#include <type_traits>

#include "core/base/error.h"
#include "core/cuda/device.h"
#include "core/memory.h"

namespace laconic {

#ifdef LACONIC_CUDA
inline constexpr bool kCudaBuilt = true;
#else
inline constexpr bool kCudaBuilt = false;
#endif

namespace detail {
[[noreturn]] inline void no_cuda(Device device) {
  throw Error(concat("device ", device, ": ",
                     kCudaBuilt ? "this operation has no kernel for it. Use cpu."
                                : "this build has no CUDA. Use cpu, or configure it with -Dcuda=enabled, which says "
                                  "what is missing."));
}
}  // namespace detail

/// Runs a kernel where the memory lies. `device` is its operands'; for the trap device the CPU kernel runs with
/// host access granted for just that time; for ghosts it does not run, and its result is zero. Throws Error for a CUDA
/// device: only for what runs on the host by its nature.
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
  if (device.kind == Device::Kind::cuda) detail::no_cuda(device);
  HostAccess access(device);
  return cpu_kernel();
}

/// With a second kernel for CUDA devices, which only asks for the work (core/stream.h). Both return one type. In a
/// build without CUDA it is compiled and left out, so that calls of cuda:: functions may stand in it, and nowhere else.
template <class F, class G>
decltype(auto) on_device(Device device, F&& cpu_kernel, [[maybe_unused]] G&& cuda_kernel) {
  if constexpr (kCudaBuilt) {
    if (device.kind == Device::Kind::cuda) {
      cuda::select(device.index);
      return cuda_kernel();
    }
  }
  return on_device(device, std::forward<F>(cpu_kernel));
}

/// Runs a kernel that is for CUDA devices alone, on the selected one: on_device() selects the device of its memory. A
/// build without CUDA leaves it out, so calls of cuda:: functions may stand in it, and returns an empty result.
template <class G>
auto cuda_only([[maybe_unused]] G&& kernel) -> decltype(kernel()) {
  if constexpr (kCudaBuilt)
    return kernel();
  else
    return decltype(kernel())();
}

/// Declares a kernel in cpu::, and in cuda:: for the selected device (core/cuda/device.h).
///   LACONIC_DECLARE(void fill(float* y, float value, std::int64_t n));
#define LACONIC_DECLARE(...) \
  namespace cpu {            \
  __VA_ARGS__;               \
  }                          \
  namespace cuda {           \
  __VA_ARGS__;               \
  }
/// Calls a kernel that LACONIC_DECLARE has declared, where the memory lies.
///   LACONIC_KERNEL(y.device(), fill(y.data<float>(), value, y.elements()));
#define LACONIC_KERNEL(device, ...) \
  ::laconic::on_device(             \
      device, [&] { return cpu::__VA_ARGS__; }, [&] { return cuda::__VA_ARGS__; })

/// Declares a kernel over arrays of Real: float on the CPU, a template for float and BFloat16 in cuda::, which computes
/// in float whatever it reads and writes.
///   LACONIC_DECLARE_REAL(void add(Real* y, const Real* x, std::int64_t n));
#define LACONIC_DECLARE_REAL(...) \
  namespace cpu {                 \
  using Real = float;             \
  __VA_ARGS__;                    \
  }                               \
  namespace cuda {                \
  template <class Real>           \
  __VA_ARGS__;                    \
  }
/// Calls such a kernel, where `tensor` lies and of its type.
///   LACONIC_REAL_KERNEL(y, add(y.data<Real>(), x.data<Real>(), y.elements()));
#define LACONIC_REAL_KERNEL(tensor, ...)                        \
  ::laconic::on_device((tensor).device(),                       \
                       [&] {                                    \
                         using Real = float;                    \
                         return cpu::__VA_ARGS__;               \
                       },                                       \
                       [&] {                                    \
                         if ((tensor).dtype() == DType::bf16) { \
                           using Real = BFloat16;               \
                           return cuda::__VA_ARGS__;            \
                         }                                      \
                         using Real = float;                    \
                         return cuda::__VA_ARGS__;              \
                       })

}  // namespace laconic
