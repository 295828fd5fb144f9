#pragma once
#include <functional>

#include "apps/options.h"

namespace laconic {

/// Trains (or evaluates) as the options say. Returns the exit code: 0, or 128 and the number of the signal that cut the
/// training short, after all has been saved (under mpirun rank 0 alone; the others 0). Throws Error.
int run_training(const TrainOptions& options, const AppDefaults& defaults);

/// main() of a training program: reads its command line, then calls `run`; see run_main. --help ends it before.
int train_main(int argc, char** argv, const std::function<AppDefaults()>& defaults,
               const std::function<int(const TrainOptions&, const AppDefaults&)>& run = run_training);

}  // namespace laconic
