#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "core/error.h"

namespace laconic {

/// For nlohmann's parse(), beside a text from outside: refuses what nests deeper than anything of ours. Whoever copies
/// or prints a value goes as deep on the stack: some kilobytes of brackets would end the program.
/// throws DataError, which begins with `where`
inline auto shallow(const std::string& where) {
  return [where](int depth, auto, const auto&) {
    constexpr int kMostNested = 64;
    require<DataError>(depth <= kMostNested, where, " is JSON that nests more than ", kMostNested,
                       " levels deep, and nothing of laconic does. Is it another file?");
    return true;
  };
}

/// A value as a whole number. nlohmann's get() cuts a number down to what T can hold; of a float that is undefined.
/// throws nlohmann's type_error, as get() does for what is no number
template <class T, class Json>
T whole_in(const Json& value) {
  if (value.is_number_unsigned() && std::in_range<T>(value.template get<std::uint64_t>()))
    return value.template get<T>();
  if (value.is_number_integer() && !value.is_number_unsigned() && std::in_range<T>(value.template get<std::int64_t>()))
    return value.template get<T>();
  throw Json::type_error::create(302, concat("there is ", value.dump(), " where a whole number belongs"), &value);
}

}  // namespace laconic
