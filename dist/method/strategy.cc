#include "dist/method/strategy.h"

#include <algorithm>
#include <cmath>

#include "core/raw.h"

namespace laconic::dist {

void JointModel::show() {
  const double whole = raw::sum_of_squares(arena_.gradients());
  double apart = 0;
  in_blocks([&](const Tensor& mine, const Tensor& joint, const Tensor& room) {
    room.copy_from(joint);
    raw::axpy(room, -1.0f, mine);
    apart += raw::sum_of_squares(room);
  });
  drift_ = whole > 0 ? std::sqrt(apart / whole) : 0;
  swap();
}

void JointModel::swap() {
  in_blocks([](const Tensor& mine, const Tensor& joint, const Tensor& room) {
    room.copy_from(mine);
    mine.copy_from(joint);
    joint.copy_from(room);
  });
  arena_.changed();
}

template <class F>
void JointModel::in_blocks(F f) const {
  const std::int64_t n = arena_.size(), most = std::min(n, kBlock);
  const Tensor room = Tensor::empty({most}, DType::f32, arena_.values().device());
  for (std::int64_t first = 0; first < n; first += most) {
    const std::int64_t count = std::min(most, n - first);
    f(arena_.values().range(first, count), arena_.gradients().range(first, count), room.range(0, count));
  }
}

}  // namespace laconic::dist
