#pragma once
#include <cstdint>

/// Values that a kernel finds impossible, where the host does not wait to be told: a kernel writes here, and the next
/// synchronize() of its thread throws.
namespace laconic::cuda {

enum class Finding : std::int32_t { none, label, index };

/// In pinned memory that the device writes and the host reads after synchronising; one for each stream.
struct Report {
  std::int32_t finding = 0;   ///< Finding: the first that was written, if there are several
  std::int64_t position = 0;  ///< of the value
  std::int64_t value = 0;
  std::int64_t limit = 0;  ///< what it had to be below
};

/// That of the calling thread's stream.
Report* report();

}  // namespace laconic::cuda
