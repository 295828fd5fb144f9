#include "dist/method/joint_model.h"

#include <cmath>

#include "core/raw.h"

namespace laconic::dist {

void JointModel::show() {
  const double whole = raw::sum_of_squares(arena_.gradients());
  const Tensor difference = Tensor::empty({arena_.size()}, DType::f32, arena_.values().device());
  difference.copy_from(arena_.gradients());
  raw::axpy(difference, -1.0f, arena_.values());
  drift_ = whole > 0 ? std::sqrt(raw::sum_of_squares(difference) / whole) : 0;
  swap();
}

void JointModel::hide() { swap(); }

void JointModel::swap() {
  const Tensor mine = Tensor::empty({arena_.size()}, DType::f32, arena_.values().device());
  mine.copy_from(arena_.values());
  arena_.values().copy_from(arena_.gradients());
  arena_.gradients().copy_from(mine);
  arena_.changed();
}

}  // namespace laconic::dist
