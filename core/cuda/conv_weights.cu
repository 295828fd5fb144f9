#include "core/cuda/conv_weights.h"
#include "core/cuda/launch.cuh"
#include "core/cuda/rounding.cuh"

namespace laconic::cuda {
namespace {

__device__ inline void put(float* to, float value) { *to = value; }
__device__ inline void put(BFloat16* to, float value) { *to = rounded(value); }

// Threads go along what is written; what is read is small enough to stay in the L2 cache between neighbours.

template <class To>
void pack(To* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K) {
  const auto channels = static_cast<unsigned>(I), kernel = static_cast<unsigned>(K);
  map(O * I * K, [=] __device__(std::int64_t at) {
    const auto i = static_cast<unsigned>(at);
    const unsigned place = i / channels, c = i - place * channels, o = place / kernel, k = place - o * kernel;
    put(packed + i, plain[(o * channels + c) * kernel + k]);
  });
}

template <class From>
void unpack(float* plain, const From* packed, std::int64_t O, std::int64_t I, std::int64_t K, bool add) {
  const auto channels = static_cast<unsigned>(I), kernel = static_cast<unsigned>(K);
  map(O * I * K, [=] __device__(std::int64_t at) {
    const auto i = static_cast<unsigned>(at);
    const unsigned place = i / kernel, k = i - place * kernel, o = place / channels, c = place - o * channels;
    const float value = widened(packed[(o * kernel + k) * channels + c]);
    plain[i] = add ? plain[i] + value : value;
  });
}

}  // namespace

void pack_weights(float* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K) {
  pack(packed, plain, O, I, K);
}
void pack_weights(BFloat16* packed, const float* plain, std::int64_t O, std::int64_t I, std::int64_t K) {
  pack(packed, plain, O, I, K);
}
void unpack_weights(float* plain, const float* packed, std::int64_t O, std::int64_t I, std::int64_t K, bool add) {
  unpack(plain, packed, O, I, K, add);
}
void unpack_weights(float* plain, const BFloat16* packed, std::int64_t O, std::int64_t I, std::int64_t K, bool add) {
  unpack(plain, packed, O, I, K, add);
}

}  // namespace laconic::cuda
