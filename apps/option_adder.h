#pragma once
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/text.h"
#include "core/error.h"

namespace laconic {

/// Throws UsageError "WHAT (WHERE): ADVICE".
[[noreturn]] void refuse(const std::string& what, const std::string& where, const std::string& advice);

/// All of `text` as a finite number; nothing if it is none.
template <class T>
std::optional<T> number_from(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

/// A whole number of at least `least`.
template <class T>
T whole(const std::string& text, const std::string& option, T least) {
  const auto value = number_from<T>(text);
  if (!value || *value < least)
    refuse(fmt::format("'{}' is not a whole number of at least {}", text, least), option,
           "give one, as " + option + " " + std::to_string(std::max<T>(least, 4)));
  return *value;
}

/// A number in [low, high].
double real(const std::string& text, const std::string& option, double low, double high, const std::string& example);

/// `text`, if it is one of the choices; else UsageError "unknown KIND ...", naming the nearest and all of them.
std::string one_of(const std::string& text, const std::string& option, const std::vector<std::string>& choices,
                   const std::string& kind = "value");

/// Returns the text of --help. `footer` stands at its end, as it is.
std::string help_text(const CLI::App& app, const std::string& footer = "");

/// Adds options to one group at a time. Values come as text, so that what is wrong with one is said in our words.
class OptionAdder {
 public:
  explicit OptionAdder(CLI::App& app) : app_(app) {}
  void group(const char* name) { group_ = name; }

  /// `read(text, "--name")` stores the value or throws UsageError.
  template <class Read>
  CLI::Option* value(const std::string& name, const std::string& type, const std::string& help, Read read) {
    CLI::Option* option = app_.add_option_function<std::string>(
        name, [read, name](const std::string& text) { read(text, name); }, help);
    return option->type_name(type)->group(group_)->take_last();
  }
  /// The same for an option that may be given again: `read` for each.
  template <class Read>
  CLI::Option* values(const std::string& name, const std::string& type, const std::string& help, Read read) {
    CLI::Option* option = app_.add_option_function<std::vector<std::string>>(
        name,
        [read, name](const std::vector<std::string>& texts) {
          for (const std::string& text : texts) read(text, name);
        },
        help);
    return option->type_name(type)->group(group_)->allow_extra_args(false);
  }
  CLI::Option* text(const std::string& name, const std::string& type, std::string& target, const std::string& help) {
    return value(name, type, help, [&target](const std::string& text, const std::string& option) {
      if (text.empty()) refuse("the value is empty", option, "give one, or leave the option out");
      target = text;
    });
  }
  /// One or more words up to the next option.
  CLI::Option* words(const std::string& name, const std::string& type, std::vector<std::string>& target,
                     const std::string& help) {
    return app_.add_option(name, target, help)->type_name(type)->group(group_);
  }
  CLI::Option* choice(const std::string& name, std::string& target, const std::vector<std::string>& choices,
                      const std::string& help) {
    return value(name, join(choices, "|"), with_default(help, target),
                 [&target, choices](const std::string& text, const std::string& option) {
                   target = one_of(text, option, choices);
                 });
  }
  template <class T>
  CLI::Option* whole_number(const std::string& name, const std::string& type, T& target, T least,
                            const std::string& help, bool show = true) {
    return value(name, type, show ? with_default(help, fmt::format("{}", target)) : help,
                 [&target, least](const std::string& text, const std::string& option) {
                   target = whole<T>(text, option, least);
                 });
  }
  template <class T>
  CLI::Option* real_number(const std::string& name, const std::string& type, T& target, double low, double high,
                           const std::string& example, const std::string& help) {
    return value(name, type, with_default(help, fmt::format("{}", target)),
                 [&target, low, high, example](const std::string& text, const std::string& option) {
                   target = static_cast<T>(real(text, option, low, high, example));
                 });
  }
  CLI::Option* flag(const std::string& name, bool& target, const std::string& help) {
    return app_.add_flag(name, target, help)->group(group_);
  }
  CLI::Option* flag(const std::string& name, const std::string& help, std::function<void()> set) {
    return app_.add_flag_callback(name, std::move(set), help)->group(group_);
  }

 private:
  static std::string with_default(const std::string& help, const std::string& value) {
    return (help.empty() ? "" : help + " ") + "[" + value + "]";
  }
  CLI::App& app_;
  std::string group_;
};

}  // namespace laconic
