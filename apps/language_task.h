#pragma once
#include <memory>
#include <string>

#include "apps/options.h"
#include "apps/task.h"

namespace laconic {

/// Training language models on text, and letting them write when that is done (--generate).
std::unique_ptr<Task> make_language_task(const std::string& data);

/// The app that trains them, `ptb`: its name, its models, and the options that it starts from, lstm-small's.
AppDefaults language_app();

/// Puts the hyper-parameters that a language model was published with into the options that follow from its name:
/// batch, words a step, learning rate, schedule, clipping, epochs.
void use_published_recipe(TrainOptions& options);

}  // namespace laconic
