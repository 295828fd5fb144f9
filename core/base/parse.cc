#include "core/base/parse.h"

#include <fmt/format.h>

#include <utility>

namespace laconic {

void refuse(const std::string& what, const std::string& where, const std::string& advice) {
  throw UsageError(what + " (" + where + "): " + advice);
}

double real(const std::string& text, const std::string& where, double low, double high, const std::string& example) {
  const auto value = number_from<double>(text);
  if (!value) refuse("'" + text + "' is not a number", where, "give one, as " + where + " " + example);
  constexpr double kMost = std::numeric_limits<float>::max();
  if (*value > kMost) refuse(text + " is out of range", where, fmt::format("give at most {:.2g}", kMost));
  if (*value < low || *value > high)
    refuse(text + " is out of range", where,
           high >= kMost ? fmt::format("give a number of at least {}, as {} {}", low, where, example)
                         : fmt::format("give a number from {} to {}, as {} {}", low, high, where, example));
  return *value;
}

std::string one_of(const std::string& text, const std::string& where, const std::vector<std::string>& choices,
                   const std::string& kind) {
  if (std::find(choices.begin(), choices.end(), text) == choices.end()) refuse_unknown(kind, text, where, choices);
  return text;
}

std::string number_text(float value) { return fmt::format("{}", value); }
std::string number_text(double value) { return fmt::format("{}", value); }

std::size_t size_from(const std::string& text) {
  constexpr double kMaxSize = 1e15;  // bytes
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value) || value < 0) return 0;
  const std::string unit(end, text.data() + text.size());
  constexpr std::pair<const char*, double> units[] = {{"", 1},       {"B", 1},         {"kB", 1e3},
                                                      {"KB", 1e3},   {"MB", 1e6},      {"GB", 1e9},
                                                      {"KiB", 1024}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
  for (const auto& [name, bytes] : units)
    if (unit == name && value * bytes <= kMaxSize) return static_cast<std::size_t>(value * bytes);
  return 0;
}

std::string size_text(std::size_t bytes) {
  for (const auto& [name, unit] :
       {std::pair{"GiB", std::size_t{1} << 30}, {"MiB", std::size_t{1} << 20}, {"KiB", std::size_t{1} << 10}})
    if (bytes >= unit && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, name);
  return fmt::format("{}", bytes);
}

std::string alternatives(const std::vector<std::string>& choices) {
  std::string text;
  for (const std::string& choice : choices) text += (text.empty() ? "" : "|") + choice;
  return text;
}

}  // namespace laconic
