#pragma once
#include "apps/options.h"

namespace laconic {

/// Adds what language models have besides, to the group at hand, to be parsed into `options`.
void add_text_options(Settings& s, TrainOptions& options);

/// Once everything is parsed: throws UsageError for what makes no sense together.
void settle_text_options(const Settings& settings, const TrainOptions& options);

}  // namespace laconic
