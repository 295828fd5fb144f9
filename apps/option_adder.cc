#include "apps/option_adder.h"

#include <fmt/format.h>

#include <algorithm>

namespace laconic {

void refuse(const std::string& what, const std::string& where, const std::string& advice) {
  throw UsageError(what + " (" + where + "): " + advice);
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

double real(const std::string& text, const std::string& option, double low, double high, const std::string& example) {
  const auto value = number_from<double>(text);
  if (!value) refuse("'" + text + "' is not a number", option, "give one, as " + option + " " + example);
  if (*value < low || *value > high)
    refuse(text + " is out of range", option,
           std::isinf(high) ? fmt::format("give a number of at least {}, as {} {}", low, option, example)
                            : fmt::format("give a number from {} to {}, as {} {}", low, high, option, example));
  return *value;
}

std::string one_of(const std::string& text, const std::string& option, const std::vector<std::string>& choices,
                   const std::string& kind) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) refuse_unknown(kind, text, option, choices);
  return text;
}

}  // namespace laconic
