#pragma once
#include <cstdint>

/// Kernels that use each tool of core/cuda/launch.cuh, for tests/cuda_test.cc. All on device memory.
namespace laconic::tests {

/// y[i] += i, by map.
void add_index(float* y, std::int64_t n);
/// sums[b] = sum of x[b * 100 … b * 100 + 99], largest[b] likewise; a block each, `threads` of them (a multiple of 32).
void sum_hundreds(float* sums, float* largest, const float* x, int blocks, int threads);
/// out[i] = bits of which lanes of i's warp have a set flag, and how many of i's block. n a multiple of 64: block size.
void votes(unsigned* ballots, int* counts, const int* flags, int n);
/// up[i], down[i]: x of the lane before and after, own at the ends. 32 of each.
void neighbours(int* up, int* down, const int* x);
/// Histogram of x modulo 10, by atomics in shared memory and then in device memory.
void count_digits(unsigned* counts, const int* x, std::int64_t n);
/// Tells of every x[i] >= limit as a label.
void report_from(const std::int64_t* x, std::int64_t n, std::int64_t limit);
/// One thread of 64 goes home before the barrier: wrong, and the emulated device says so.
void miss_barrier();
/// x[i] / d and x[i] % d.
void divide(std::int64_t* quotients, std::int64_t* rests, const std::int64_t* x, std::int64_t n, std::int64_t d);
/// y [64], cleared: each thread takes what the one before it has left, if that came first: wrong.
void without_barrier(float* y);
/// Two blocks of 64 threads, of which one writes what another reaches with nothing that orders the two: in another lane
/// after a shuffle, in another warp after the warp's barrier, in another block; after the other has read it; by an
/// atomic operation. misaligned: 8 bytes are written in the middle of two floats. none: all is in order. y [3].
enum class Race { none, warp, block, grid, read_first, atomic, misaligned };
void run_race(float* y, Race race);

}  // namespace laconic::tests
