#pragma once
#include <algorithm>

#include "dist/method/strategy.h"

namespace laconic::dist {

/// Asks for every parameter as a forward would that uses each once: in the order of registration (the arena's last is
/// the first), large ones by chunks.
inline void whole_forward(Strategy& sync, const ParameterArena& arena) {
  const auto& parameters = arena.parameters();
  for (std::size_t i = parameters.size(); i-- > 0;) {
    Parameter& p = *parameters[i];
    const std::int64_t all = p.all_rows().count, chunk = p.chunk_rows() > 0 ? p.chunk_rows() : all;
    for (std::int64_t first = 0; first < all; first += chunk)
      sync.before_forward(p, {first, std::min(chunk, all - first)});
  }
}

}  // namespace laconic::dist
