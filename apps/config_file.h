#pragma once

namespace CLI {
class App;
}

namespace laconic {

/// Adds --config FILE to `app`, which must know all its other options by the time that it parses. Lines are
/// `name = value`, in TOML. `true` gives an option that may stand without a value, `false` does not.
/// Throws UsageError from parse(): an empty list, several values for one option, a name that stands twice, a byte 0.
void add_config_file(CLI::App& app, const char* group);

}  // namespace laconic
