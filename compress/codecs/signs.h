#pragma once
#include <cstddef>
#include <vector>

#include "core/slice.h"

namespace laconic::compress {

/// Signs as bits: lowest first, 1 is below 0, filled up to a byte.
inline std::size_t bytes_of_signs(std::size_t n) { return (n + 7) / 8; }
void write_signs(const float* x, std::size_t n, std::byte* bits);
/// x[i] = one of two values, by its bit
void read_signs(const std::byte* bits, std::size_t n, float above, float below, float* x);
/// x[i] += value, or -= value where the bit says below
void add_signs(const std::byte* bits, std::size_t n, float value, float* x);

/// The mean of |x[i]|, added in double, in an order that depends on the size alone. 0 of nothing.
float mean_magnitude(Slice<const float> x);

/// Stretches of a vector, each as signs and one magnitude: C(x) = mean |x| sign(x), where sign(0) = 1.
///
///     message, little-endian      for each stretch   mean |x| : f32 | signs
///
/// What is no number makes all of its stretch none.   cost  two passes
class ScaledSigns {
 public:
  /// One more stretch: elements [first, first + count) of the vector.
  void add(std::size_t first, std::size_t count);
  std::size_t bytes() const { return bytes_; }

  /// Writes what travels of x, and takes it out of x: x -= C(x).
  void extract(float* x, std::byte* message) const;
  /// x += factor C
  void add_to(const std::byte* message, float factor, float* x) const;
  /// x = C. Between stretches nothing is written.
  void read(const std::byte* message, float* x) const;

 private:
  struct Stretch {
    std::size_t first, count;
  };
  std::vector<Stretch> stretches_;
  std::size_t bytes_ = 0;
};

}  // namespace laconic::compress
