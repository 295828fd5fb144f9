#pragma once
// One thread block at a time in the whole program (the lock of runtime.cc sees to that), its threads as fibers of the
// host thread that does the work: a thread runs until it comes to a barrier or its end. While none comes to a barrier
// all of them run on one fiber, one after another: as cheap as a loop.
//
// Blocks and the threads of one come in their order; with EMULATED_CUDA_ORDER=reversed from the last to the first, with
// EMULATED_CUDA_ORDER=shuffled across each other, every block in another order. A missing barrier shows where a thread
// reads what one that comes later writes: in one order alone half of them would hide.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace emulated_cuda {

/// Runs `thread` once for every thread of every block, block after block.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread);

// For the thread that runs now.
int linear_thread();
void block_barrier();
/// A barrier; how many threads came with true.
int block_count(bool predicate);
/// A barrier of the warp's 32 threads, which orders what they do to memory.
void warp_barrier(unsigned mask);
/// Waits for the warp's 32 threads; orders nothing but what they tell each other. Returns what the thread of lane
/// `from` came with.
std::uint64_t warp_exchange(unsigned mask, std::uint64_t value, unsigned from);
/// Likewise. Bit i says whether the thread of lane i came with true.
unsigned warp_ballot(unsigned mask, bool predicate);

}  // namespace emulated_cuda
