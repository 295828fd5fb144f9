#pragma once
#include "core/parameter.h"

namespace laconic::dist {

/// The model that is evaluated and saved where workers hold different parameters. A strategy brings it into the place
/// of the gradients, which nobody needs after a flush. Here it changes places with the worker's own.
///
///   cost     memory of one copy of the parameters while they change places; four passes over it
class JointModel {
 public:
  /// The arena must outlive this.
  explicit JointModel(const ParameterArena& arena) : arena_(arena) {}

  /// The joint model stands in the place of the gradients: from now on in that of the parameters.
  void show();
  /// Puts back what was there.
  void hide();
  /// How far the worker's parameters were from the joint model at the last show(): the 2-norm of the difference, over
  /// that of the model.
  double drift() const { return drift_; }

 private:
  void swap();
  const ParameterArena& arena_;
  double drift_ = 0;
};

}  // namespace laconic::dist
