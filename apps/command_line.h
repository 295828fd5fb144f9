#pragma once
#include <functional>
#include <string>

#include "core/settings.h"

namespace CLI {
class App;
}

namespace laconic {

using Skipped = std::function<bool(const Setting&)>;
/// Makes an option of `app` of each setting, --NAME. What is `skipped` may be given too, and has no effect. The
/// settings must outlive the app's parsing.
void bind(CLI::App& app, Settings& settings, const Skipped& skipped = nullptr);

/// Returns the text of --help. `footer` stands at its end, as it is.
std::string help_text(const CLI::App& app, const std::string& footer = "");

}  // namespace laconic
