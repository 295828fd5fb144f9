#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace laconic {

/// Converts `count` elements. Returns how many of them, from the first on, the result's type can hold: `count` if all.
using Convert = std::int64_t (*)(const std::byte* from, std::int64_t count, std::byte* to);

/// A type that elements of safetensors files have, and how they become numbers of ours.
///   floats    F64, F32, F16 (IEEE binary16), BF16, F8_E5M2 (IEEE-like), F8_E4M3 (without infinities; OCP's)
///   source    https://github.com/huggingface/safetensors, "Format"; F8: Micikevicius et al. 2022, "FP8 formats for
///   deep
///             learning"
struct ElementType {
  const char* name;
  std::size_t bytes;
  Convert to_f32 = nullptr;  ///< null: it holds no floats
  Convert to_i64 = nullptr;  ///< null: it holds no whole numbers
};
/// nullptr if it is not known here, as types of less than a byte are not.
const ElementType* element_type(const std::string& name);

}  // namespace laconic
