#include <algorithm>
#include <cub/device/device_radix_sort.cuh>
#include <memory>

#include "apps/bench/cuda/cub_top_k.h"
#include "core/cuda/launch.cuh"

namespace laconic {
namespace {

using cuda::check;
using cuda::Temporary;

void magnitudes(std::uint32_t* keys, std::uint32_t* indices, const float* x, std::int64_t n) {
  cuda::map(n, [=] __device__(std::int64_t i) {
    keys[i] = __float_as_uint(x[i]) & 0x7fffffffu;
    indices[i] = static_cast<std::uint32_t>(i);
  });
}

struct Room {
  Temporary<std::uint32_t> keys, sorted_keys, indices, sorted, ascending;
  Room(std::int64_t n, std::int64_t k) : keys(n), sorted_keys(n), indices(n), sorted(n), ascending(k) {}
};

}  // namespace

std::function<const std::uint32_t*()> cub_top_k(const float* x, std::int64_t n, std::int64_t k) {
  const auto room = std::make_shared<Room>(n, k);
  // Both sorts; without memory they tell how many bytes of it they need.
  const auto sort_all = [=](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortPairsDescending(memory, bytes, room->keys.data(), room->sorted_keys.data(),
                                                     room->indices.data(), room->sorted.data(), n, 0, 31,
                                                     cuda::stream());
  };
  const auto sort_chosen = [=](void* memory, std::size_t& bytes) {
    return cub::DeviceRadixSort::SortKeys(memory, bytes, room->sorted.data(), room->ascending.data(), k, 0, 32,
                                          cuda::stream());
  };
  std::size_t first = 0, second = 0;
  check(sort_all(nullptr, first), "asking CUB for its scratch");
  check(sort_chosen(nullptr, second), "asking CUB for its scratch");
  std::size_t bytes = std::max(first, second);
  const auto scratch = std::make_shared<Temporary<std::byte>>(bytes);
  return [=]() mutable -> const std::uint32_t* {
    magnitudes(room->keys.data(), room->indices.data(), x, n);
    check(sort_all(scratch->data(), bytes), "sorting with CUB");
    check(sort_chosen(scratch->data(), bytes), "sorting with CUB");
    return room->ascending.data();
  };
}

}  // namespace laconic
