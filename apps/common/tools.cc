#include "apps/common/tools.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "apps/command_line.h"
#include "apps/common/text.h"
#include "core/base/parse.h"

namespace laconic {

int run_subcommand(const std::string& tool, std::span<const Subcommand> all,
                   const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h") {
    fmt::print("Usage: {} NAME ...; each tells its options with --help.\n\n", tool);
    for (const Subcommand& s : all)
      if (s.what != nullptr) fmt::print("  {:<12} {}\n", s.name, s.what);
    return 0;
  }
  std::vector<std::string> names;
  for (const Subcommand& s : all) {
    if (arguments[0] == s.name) return s.run({arguments.begin() + 1, arguments.end()});
    if (s.what != nullptr) names.push_back(s.name);
  }
  throw UsageError(concat("unknown name '", arguments[0], "' (", tool, "): ", did_you_mean(arguments[0], names),
                          "There are ", join(names, ", ")));
}

namespace {

/// Refuses what no option has taken, if there is any.
void refuse_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  if (extras[0].starts_with('-')) refuse_option(app, extras[0], app.get_name());
  refuse("'" + extras[0] + "' is one word too many", app.get_name(), "see --help");
}

}  // namespace

CLI::Validator number_from_to(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) {
        const auto value = number_from<double>(text);
        return value && *value >= low && *value <= high
                   ? std::string()
                   : fmt::format("'{:.20}' is no number from {:g} to {:g}", text, low, high);
      },
      "", "");
}

std::optional<int> parse_tool(CLI::App& app, const std::vector<std::string>& arguments) {
  format_help(app, 28);
  app.set_help_flag("-h,--help", "this text");
  app.allow_extras();  // refused with a suggestion
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    std::cout << help_text(app);
    return 0;
  } catch (const CLI::Success& done) {
    return app.exit(done, std::cout, std::cerr);
  } catch (const CLI::ParseError& e) {
    refuse_extras(app);  // what is misspelt may be what is missing
    throw UsageError(concat(e.what(), " (", app.get_name(), "): see --help"));
  }
  refuse_extras(app);
  return std::nullopt;
}

}  // namespace laconic
