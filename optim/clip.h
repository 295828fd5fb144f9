#pragma once
#include <string>

#include "core/parameter.h"

namespace laconic {

/// Bounds on the gradient of a step, `--clip norm:X`, `value:X` or `none`.
struct Clip {
  enum class Kind { none, norm, value };
  Kind kind = Kind::none;
  double limit = 0;

  /// "none", "norm:X", "value:X" with X > 0.   throws UsageError naming `where`
  static Clip parse(const std::string& text, const std::string& where = "`clip`");
};

/// Sum over the parameters of their squared gradients, in double. Each parameter is added in chunks of fixed size, and
/// the parameters in arena order: the same for any number of threads. Ranks that hold parts add theirs before
/// clip_scale.
double gradient_sum_of_squares(const ParameterArena& arena);

/// What every gradient is to be multiplied by so that their common norm is at most `limit`: 1 if it is already, else
/// limit / (norm + 1e-6), as PyTorch's clip_grad_norm_ does. NaN if the norm is: it must show, not vanish. Pass it to
/// Optimizer::update as gradient_scale.
double clip_scale(double sum_of_squares, double limit);

/// Every element of the gradient to [-limit, limit]. NaN stays NaN.
void clip_value(const Tensor& gradient, double limit);

}  // namespace laconic
