#include "apps/command_line.h"

#include <CLI/CLI.hpp>
#include <vector>

namespace laconic {

void bind(CLI::App& app, Settings& settings, const Skipped& skipped) {
  using Takes = Setting::Takes;
  for (Setting& s : settings.all()) {
    const std::string name = "--" + s.name, help = Settings::as_options(s.help);
    const bool skip = skipped && skipped(s);
    const auto set = [&s, skip](const std::string& text) {
      if (!skip) s.set(text);
    };
    const auto set_all = [set](const std::vector<std::string>& texts) {
      for (const std::string& text : texts) set(text);
    };
    CLI::Option* option = nullptr;
    if (s.takes == Takes::nothing)
      option = app.add_flag_callback(
          name, [set] { set(""); }, help);
    else if (s.takes == Takes::repeated || s.takes == Takes::words)
      option = app.add_option_function<std::vector<std::string>>(name, set_all, help);
    else
      option = app.add_option_function<std::string>(name, set, help);
    option->group(s.hidden ? "" : Settings::as_options(s.group));
    if (s.takes != Takes::nothing) option->type_name(s.type);
    if (s.takes == Takes::repeated) option->allow_extra_args(false);
    if (s.takes == Takes::one || s.takes == Takes::maybe) option->take_last();
    if (s.takes == Takes::maybe) option->expected(0, 1);
  }
}

std::string help_text(const CLI::App& app, const std::string& footer) {
  std::string help = app.help();
  if (!footer.empty()) help += "\n" + footer + "\n";
  for (std::size_t at; (at = help.find(" \n")) != std::string::npos;) help.erase(at, 1);
  for (std::size_t at; (at = help.find("\n\n\n")) != std::string::npos;) help.erase(at, 1);
  // CLI11 2.6 leaves the word out.
  const std::size_t line = help.find("\n" + app.get_name() + " ");
  if (help.find("Usage: ") == std::string::npos && line != std::string::npos) help.insert(line + 1, "Usage: ");
  return help;
}

}  // namespace laconic
