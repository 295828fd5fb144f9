#pragma once
#include "compress/draws.h"
#include "core/cuda/launch.cuh"
#include "core/random.h"

namespace laconic::compress::cuda {

/// The numbers of compress/draws.h in a kernel.
struct DrawsOnDevice {
  std::uint32_t key[2], counter[3];
  explicit DrawsOnDevice(const Draws& draws) {
    for (int i = 0; i < 2; ++i) key[i] = draws.key()[i];
    for (int i = 0; i < 3; ++i) counter[i] = draws.counter()[i];
  }
  /// Of a block's 128 numbers those at lane, lane + 32, lane + 64 and lane + 96.
  __device__ void draw(std::uint32_t block, unsigned lane, unsigned (&numbers)[4]) const {
    const auto four = philox({block * 32 + lane, counter[0], counter[1], counter[2]}, {key[0], key[1]});
    for (int w = 0; w < 4; ++w) numbers[w] = four[w];
  }
};

}  // namespace laconic::compress::cuda
