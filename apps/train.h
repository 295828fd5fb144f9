#pragma once
#include "apps/options.h"

namespace laconic {

/// Trains (or evaluates) as the options say; returns the exit code. Throws Error.
int run_training(const TrainOptions& options, const AppDefaults& defaults);

}  // namespace laconic
