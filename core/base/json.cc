#include "core/base/json.h"

#include <nlohmann/json.hpp>

namespace laconic {
namespace {

template <class Json>
Json parsed_json(std::string_view text, const std::string& where, bool must_be_json = true) {
  const auto shallow = [&](int depth, auto, const Json&) {
    constexpr int kMostNested = 64;
    require<DataError>(depth <= kMostNested, where, " is JSON that nests more than ", kMostNested,
                       " levels deep, and nothing of laconic does. Is it another file?");
    return true;
  };
  return Json::parse(text, shallow, must_be_json);
}

}  // namespace

nlohmann::json json_from(std::string_view text, const std::string& where) {
  return parsed_json<nlohmann::json>(text, where);
}

nlohmann::ordered_json ordered_json_from(std::string_view text, const std::string& where) {
  return parsed_json<nlohmann::ordered_json>(text, where);
}

nlohmann::json json_or_discarded(std::string_view text) {
  try {
    return parsed_json<nlohmann::json>(text, "", false);
  } catch (const DataError&) {  // too deep
    return nlohmann::json::value_t::discarded;
  }
}

}  // namespace laconic
