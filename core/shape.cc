#include "core/shape.h"

#include <algorithm>
#include <vector>

#include "core/base/error.h"

namespace laconic {

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  require<ShapeError>(dims.size() <= kMaxRank, "shape: ", dims.size(), " extents, but at most ", kMaxRank,
                      " are possible.");
  std::copy(dims.begin(), dims.end(), dims_.begin());
  for (std::int64_t d : dims) require<ShapeError>(d >= 0, "shape: extent ", d, " in ", *this, " is negative.");
}

Shape Shape::batch(std::int64_t samples) const {
  std::vector<std::int64_t> extents = {samples};
  extents.insert(extents.end(), dims().begin(), dims().end());
  return Shape(std::span<const std::int64_t>(extents));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '[';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? ", " : "") << shape[i];
  return out << ']';
}

}  // namespace laconic
