#pragma once
#include "compress/ordered_sum.h"
#include "core/cuda/launch.cuh"

/// The sums of compress/ordered_sum.h on a device, to the bit. Of one chunk also in floats, as
/// compress/inceptionn/relative.cc adds them.
namespace laconic::compress::cuda {

using namespace laconic::cuda;

/// Half a warp adds up one sum of a chunk: the halves add two sums of one chunk, or one sum of two chunks.
/// term(i, second): the terms of element i, each asked for once.
template <int kSums, class Term, class Sum>
__global__ void __launch_bounds__(kBlock) chunk_sums_kernel(Term term, std::int64_t n, Sum* chunks) {
  static_assert(kSums == 1 || kSums == 2);
  constexpr std::int64_t kChunk = kSumChunk, kLanes = kSumLanes;
  const std::int64_t halves = (static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x) / kLanes;
  const std::int64_t chunk = halves / kSums, first = chunk * kChunk, mine = threadIdx.x % kLanes;
  const std::int64_t left = n - first, here = left < kChunk ? left : kChunk;
  const bool second = kSums == 2 && halves % 2 == 1;
  Sum sum = 0;
  LACONIC_UNROLL(8)
  for (std::int64_t i = mine; i < here; i += kLanes) sum += term(first + i, second);
  Sum all = 0;
  for (int l = 0; l < static_cast<int>(kLanes); ++l)
    all += __shfl_sync(kAllLanes, sum, static_cast<int>(threadIdx.x % 32 - mine) + l);
  if (mine == 0 && here > 0) chunks[halves] = all;
}

/// The chunks' sums in their order. One block of 32 threads, which fetch together what each of the first adds: those
/// that come next while these are added.
template <int kSums>
__global__ void add_chunks_kernel(const double* chunks, std::int64_t count, double* sums) {
  double sum = 0, fetched[kSums];
  const auto fetch = [&](std::int64_t first) {
    for (int s = 0; s < kSums; ++s)
      fetched[s] = first + threadIdx.x < count ? chunks[(first + threadIdx.x) * kSums + s] : 0.0;
  };
  fetch(0);
  for (std::int64_t first = 0; first < count; first += 32) {
    double next[kSums];
    for (int s = 0; s < kSums; ++s) next[s] = fetched[s];
    fetch(first + 32);
    const int here = count - first < 32 ? static_cast<int>(count - first) : 32;
    for (int s = 0; s < kSums; ++s)
      for (int l = 0; l < here; ++l) {
        const double one = __shfl_sync(kAllLanes, next[s], l);
        if (static_cast<int>(threadIdx.x) == s) sum += one;
      }
  }
  if (threadIdx.x < kSums) sums[threadIdx.x] = sum;
}

/// The sums of each chunk, one after the other. Only asked for, as all work.
template <int kSums, class Term, class Sum>
void chunk_sums(Term term, std::int64_t n, Sum* sums) {
  const std::int64_t chunks = (n + static_cast<std::int64_t>(kSumChunk) - 1) / static_cast<std::int64_t>(kSumChunk);
  launch(chunk_sums_kernel<kSums, Term, Sum>,
         static_cast<unsigned>((chunks * kSums * static_cast<std::int64_t>(kSumLanes) + kBlock - 1) / kBlock), kBlock,
         term, n, sums);
}

/// sums[s] becomes the sum of term(i, s == 1) over i < n.
template <int kSums, class Term>
void ordered_sums(Term term, std::int64_t n, double* sums) {
  const std::int64_t chunks = (n + static_cast<std::int64_t>(kSumChunk) - 1) / static_cast<std::int64_t>(kSumChunk);
  Temporary<double> of_chunk(static_cast<std::size_t>(chunks) * kSums);
  chunk_sums<kSums>(term, n, of_chunk.data());
  launch(add_chunks_kernel<kSums>, 1, 32, of_chunk.data(), chunks, sums);
}

}  // namespace laconic::compress::cuda
