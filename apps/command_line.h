#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/base/settings.h"

namespace CLI {
class App;
}

namespace laconic {

/// What a command line gives to settings, by name, in the order of --help.
using Texts = std::vector<std::pair<std::string, std::string>>;
/// Makes an option of `app` of each setting, --NAME. Parsing adds what it finds to `texts`, which must outlive it.
void bind(CLI::App& app, const Settings& settings, Texts& texts);

/// Adds --config FILE to `app`, which must know all its other options by the time that it parses. Lines are
/// `name = value`, in TOML. `true` gives an option that may stand without a value, `false` does not.
/// Throws UsageError from parse(): an empty list, several values for one option, a name that stands twice, a byte 0.
void add_config_file(CLI::App& app, const char* group);

/// Refuses a word of a command line that looks like an option and is none of `app`'s. Throws UsageError naming the
/// nearest one.
[[noreturn]] void refuse_option(const CLI::App& app, const std::string& word, const std::string& where);

/// Makes --help say of options what they take, in columns of this width. CLI11 alone would add how it checks values.
void format_help(CLI::App& app, int column_width);

/// Returns the text of --help. `footer` stands at its end, as it is.
std::string help_text(const CLI::App& app, const std::string& footer = "");

}  // namespace laconic
