#include <cub/device/device_radix_sort.cuh>
#include <optional>

#include "apps/bench/cuda/cub_top_k.h"
#include "core/cuda/launch.cuh"

namespace laconic {

using cuda::check;
using cuda::Temporary;

struct CubTopK::State {
  const float* x;
  std::int64_t n, k;
  Temporary<std::uint32_t> keys, sorted_keys, indices, sorted, ascending;
  std::size_t scratch_bytes = 0;
  std::optional<Temporary<std::byte>> scratch;

  State(const float* x, std::int64_t n, std::int64_t k)
      : x(x), n(n), k(k), keys(n), sorted_keys(n), indices(n), sorted(n), ascending(k) {
    std::size_t second = 0;
    check(sort(nullptr, scratch_bytes), "asking CUB for its scratch");
    check(sort_chosen(nullptr, second), "asking CUB for its scratch");
    scratch_bytes = std::max(scratch_bytes, second);
    scratch.emplace(scratch_bytes);
  }
  cudaError_t sort(void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairsDescending(memory, bytes, keys.data(), sorted_keys.data(), indices.data(),
                                                     sorted.data(), n, 0, 31, cuda::stream());
  }
  cudaError_t sort_chosen(void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(memory, bytes, sorted.data(), ascending.data(), k, 0, 32, cuda::stream());
  }
};

namespace {

void magnitudes(std::uint32_t* keys, std::uint32_t* indices, const float* x, std::int64_t n) {
  cuda::map(n, [=] __device__(std::int64_t i) {
    keys[i] = __float_as_uint(x[i]) & 0x7fffffffu;
    indices[i] = static_cast<std::uint32_t>(i);
  });
}

}  // namespace

CubTopK::CubTopK(const float* x, std::int64_t n, std::int64_t k) : state_(std::make_unique<State>(x, n, k)) {}
CubTopK::~CubTopK() = default;

void CubTopK::run() {
  State& s = *state_;
  magnitudes(s.keys.data(), s.indices.data(), s.x, s.n);
  check(s.sort(s.scratch->data(), s.scratch_bytes), "sorting with CUB");
  check(s.sort_chosen(s.scratch->data(), s.scratch_bytes), "sorting with CUB");
}

const std::uint32_t* CubTopK::indices() const { return state_->ascending.data(); }

}  // namespace laconic
