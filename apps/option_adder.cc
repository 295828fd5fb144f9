#include "apps/option_adder.h"

#include <fmt/format.h>

#include <algorithm>

namespace laconic {

void refuse(const std::string& what, const std::string& where, const std::string& advice) {
  throw UsageError(what + " (" + where + "): " + advice);
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
