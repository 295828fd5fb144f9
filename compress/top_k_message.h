#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "compress/sparse_message.h"

namespace laconic::compress {

/// What a worker sends of the sums e of a message, by chunks of at most 4096 neighbours.
struct TopKWire {
  double density = 1;     ///< share of a chunk that is sent: k = max(1, ceil(density n)) of n
  bool two_bits = false;  ///< a value is its sign and one of two magnitudes of its chunk, else a float

  static constexpr std::int64_t kChunk = 4096;

  /// Returns the number of elements that are sent of each chunk of a run of n.
  std::vector<std::size_t> counts(std::int64_t n) const;
  /// The bytes of a message about `chosen` elements of n, in `chunks`; an estimate.
  double expected_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const;
  /// No message is longer.
  std::size_t max_bytes(std::size_t chosen, std::size_t chunks, std::size_t n) const;

  /// Appends a message. values become what the receivers read.
  ///   indices : ascending, below n;   counts : the number of them in each chunk
  ///
  ///     floats     the sparse message with Rice-coded indices (compress/sparse_message.h)
  ///     two bits   bytes : u32 | sparse message without values, of that length | low, high : f32 for each chunk |
  ///                sign (1: below zero) and level (1: high) of each value, lowest bits first, filled up to 4 bytes
  void encode(Slice<const std::uint32_t> indices, Slice<float> values, std::span<const std::size_t> counts,
              std::size_t n, Bytes& payload) const;
  /// dense += factor times what a payload of that form says. Lengths and indices are checked first.
  /// throws DataError if it is none
  void decode_add(Slice<const std::byte> payload, std::span<const std::size_t> counts, float factor,
                  Slice<float> dense) const;
};

}  // namespace laconic::compress
