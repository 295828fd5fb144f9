#include "apps/train.h"

#include "core/error.h"

namespace laconic {

int run_training(const TrainOptions&, const AppDefaults& defaults) {
  throw Error(defaults.program + ": training is not part of this build yet");
}

}  // namespace laconic
