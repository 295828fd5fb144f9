#include "dist/padding.h"

#include "core/raw.h"

namespace laconic::dist {

void clear_padding(const Tensor& state, std::span<const std::shared_ptr<Parameter>> neighbours) {
  for (std::size_t i = 0; i + 1 < neighbours.size(); ++i) {
    const ParameterInfo &here = neighbours[i]->info, &next = neighbours[i + 1]->info;
    const std::int64_t end = here.offset + here.elements;
    if (next.offset > end) raw::fill(state.range(end, next.offset - end), 0.0f);
  }
}

}  // namespace laconic::dist
