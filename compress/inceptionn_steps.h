#pragma once
#include <cstdint>

#include "compress/inceptionn.h"

namespace laconic::compress {

/// INCEPTIONN's compression one value at a time, as it is printed: what the kernels and the model of its network card
/// are tested against.
struct CodedValue {
  unsigned tag;  ///< 0, 1, 2, 3: a payload of 0, 8, 16, 32 bits
  std::uint32_t payload;
  bool operator==(const CodedValue&) const = default;
};

/// Algorithm 2 in mode published; in bounded its classes with rounding by the bound (compress/inceptionn.h).
CodedValue compress_value(InceptionnMode mode, int exponent, float value);

/// Algorithm 3, and its counterpart.
float decompress_value(InceptionnMode mode, int exponent, CodedValue coded);

/// Bytes of a payload, by its tag.
inline constexpr unsigned kPayloadBytes[4] = {0, 1, 2, 4};

}  // namespace laconic::compress
