#pragma once
#include <vector>

#include "dist/collective/cost.h"

namespace laconic {

using dist::LinkModel;

/// Something that was timed and has a cost function.
struct Timed {
  dist::Cost cost;
  double seconds = 0;
};

/// The alpha, beta, gamma >= 0 with the least sum of squared RELATIVE errors, so that microseconds count as much as
/// milliseconds. Where the measurements do not tell two of them apart, one may be 0. Without measurements all are 0.
LinkModel fit_link(const std::vector<Timed>& measured);

}  // namespace laconic
