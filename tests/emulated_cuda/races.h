#pragma once
// Finds races of kernels: two threads that reach the same byte with nothing between them that orders it, one of them
// writing. No order of threads needs to show it as a wrong value.
//
// Kernels are compiled with -fsanitize=thread, which has each access call a function, and these functions are ours
// (races.cc). Within a block barriers order, within a warp __syncwarp() does too (a shuffle or a vote orders no memory on
// a GPU); nothing orders blocks of one launch but their end. Atomic operations do not race with each other.
#include <cstddef>
#include <cstdint>

namespace emulated_cuda {

/// Where the thread that runs now stands. Kept by block.cc.
struct Standing {
  std::uint32_t launch = 0, block = 0;
  std::uint16_t thread = 0, barriers = 0;  // so many have been passed by this block
  std::uint16_t warp_barriers[32] = {};    // by each warp
  const std::byte* stack = nullptr;        // this thread's own memory
};
inline Standing standing;
/// This host thread runs a kernel.
inline thread_local bool in_kernel = false;

constexpr std::size_t kStack = 256 << 10;  // bytes

}  // namespace emulated_cuda
