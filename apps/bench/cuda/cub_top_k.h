#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace laconic {

/// The k largest of |x| as a user of CUB finds them: a radix sort of all magnitudes with their indices, largest first,
/// and of the first k the indices in ascending order. A yardstick for `laconic bench select`; all on the calling
/// thread's stream, memory taken once.
class CubTopK {
 public:
  /// x : [n] on the thread's CUDA device, n < 2^31. Throws Error if there is no room.
  CubTopK(const float* x, std::int64_t n, std::int64_t k);
  ~CubTopK();
  void run();
  const std::uint32_t* indices() const;  ///< [k], on the device

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace laconic
