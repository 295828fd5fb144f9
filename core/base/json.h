#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace laconic {

/// The value that `text` spells. What nests deeper than anything of ours is refused: copying or printing a value goes
/// as deep on the stack, and some kilobytes of brackets would end the program.
/// throws DataError, which begins with `where`, if it nests too deep; nlohmann's parse_error if it is no JSON
nlohmann::json json_from(std::string_view text, const std::string& where);
/// Its objects keep the order of their names.
nlohmann::ordered_json ordered_json_from(std::string_view text, const std::string& where);
/// The object that `text` spells, of at most `most` levels. `what` the text is, for messages: "the header".
/// throws DataError, which begins with `path`: it is no JSON object, has a name twice, or nests deeper
nlohmann::ordered_json object_without_twins(const std::string& text, const std::string& path, const std::string& what,
                                            int most);
/// The value is discarded, as nlohmann calls it, if the text is no JSON or nests too deep.
nlohmann::json json_or_discarded(std::string_view text);

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
