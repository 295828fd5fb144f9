#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace laconic {

/// A number of what has been added and in what order; two sequences share it but for chance (2^-64). No cryptography.
/// Cost: about 1 GB/s.
class Digest {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    add(values.data(), values.size() * sizeof(T));
  }
  void add(const void* data, std::size_t bytes);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

}  // namespace laconic
