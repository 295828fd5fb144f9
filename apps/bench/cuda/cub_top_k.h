#pragma once
#include <cstdint>
#include <functional>

namespace laconic {

/// The k largest of |x| as a user of CUB finds them: a radix sort of all magnitudes with their indices, largest first,
/// and of the first k the indices in ascending order. A yardstick for `laconic bench select`. Each call sorts on the
/// calling thread's stream, in memory that is taken once, and returns the indices: [k], on the device.
///   x : [n] on the thread's CUDA device, n < 2^31.   throws Error if there is no room
std::function<const std::uint32_t*()> cub_top_k(const float* x, std::int64_t n, std::int64_t k);

}  // namespace laconic
