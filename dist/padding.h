#pragma once
#include <memory>
#include <span>

#include "core/parameter.h"

namespace laconic::dist {

/// Zeros between parameters that are neighbours in an arena, for what does not keep zeros zero (a codec).
/// state : laid out like the arena
void clear_padding(const Tensor& state, std::span<const std::shared_ptr<Parameter>> neighbours);

}  // namespace laconic::dist
