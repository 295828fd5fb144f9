#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"

namespace laconic {

/// Throws UsageError "WHAT (WHERE): ADVICE". A setting is named as `density`, in such quotes: a program that took it
/// from its command line shows --density (core/base/settings.h).
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

/// The most that a whole number may be: a count of 64 bits is multiplied by others, and stays far from its limit.
template <class T>
constexpr T kMostOf = std::is_same_v<T, std::int64_t> ? T{1'000'000'000} : std::numeric_limits<T>::max();

/// A whole number from `least` to `most`. throws UsageError
template <class T>
T whole(const std::string& text, const std::string& where, T least, T most = kMostOf<T>) {
  const auto value = number_from<T>(text);
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  if (digits && (!value || *value > most)) refuse(concat(text, " is too much"), where, concat("give at most ", most));
  if (!value || *value < least)
    refuse(concat("'", text, "' is not a whole number of at least ", least), where,
           concat("give one, as ", where, " ", std::max<T>(least, 4)));
  return *value;
}

/// A number in [low, high]; one that a float holds. throws UsageError
double real(const std::string& text, const std::string& where, double low, double high, const std::string& example);

/// `text`, if it is one of the choices. throws UsageError "unknown KIND ...", naming the nearest and all of them
std::string one_of(const std::string& text, const std::string& where, const std::vector<std::string>& choices,
                   const std::string& kind = "value");

/// The fewest digits that read back as it.
std::string number_text(float value);
std::string number_text(double value);
template <class T>
requires std::is_integral_v<T> std::string number_text(T value) { return std::to_string(value); }

/// "64KiB", "1MiB", "25MB", "4096": bytes, at least 1; 0 if it is no size.
std::size_t size_from(const std::string& text);
/// "1MiB", or a number of bytes.
std::string size_text(std::size_t bytes);

/// "a|b|c"
std::string alternatives(const std::vector<std::string>& choices);

}  // namespace laconic
