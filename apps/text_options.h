#pragma once
#include "apps/option_adder.h"
#include "apps/options.h"

namespace laconic {

/// Adds what language models have besides, to the group at hand, to be parsed into `options`.
void add_text_options(OptionAdder& add, TrainOptions& options);

/// Once everything is parsed: throws UsageError for what makes no sense together.
void settle_text_options(const CLI::App& app, const TrainOptions& options);

}  // namespace laconic
