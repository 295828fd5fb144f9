#pragma once
#include <cstdint>
#include <vector>

namespace laconic::compress {

/// Which values compete, and by what: all by |x|; or only those above 0, by x; or only those below 0, by -x (quantised
/// RGC sends one sign at a time, in turns).
enum class Sign : std::uint8_t { any, positive, negative };

/// A communication-set: the elements of one tensor that are chosen to be sent. Memory is kept from one selection to the
/// next.
struct Selection {
  std::vector<std::uint32_t> indices;  ///< ascending
  std::vector<float> values;           ///< as long as indices: the tensor there
  /// The smallest magnitude that was let in: by a rule "above a threshold" that threshold, else the smallest chosen.
  float threshold = 0;
  /// How often all of the tensor was read; what was handed over from the residual pass is not counted.
  int passes = 0;

  std::size_t size() const { return indices.size(); }
  void clear() {
    indices.clear(), values.clear();
    threshold = 0, passes = 0;
  }
};

}  // namespace laconic::compress
