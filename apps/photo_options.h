#pragma once
#include "apps/options.h"

namespace laconic {

/// Adds what models of photographs have besides, to the group at hand, to be parsed into `options`.
void add_photo_options(Settings& s, TrainOptions& options);

/// Once everything is parsed: throws UsageError for what makes no sense together.
void settle_photo_options(const Settings& settings, const TrainOptions& options);

}  // namespace laconic
