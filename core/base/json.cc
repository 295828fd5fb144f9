#include "core/base/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

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

nlohmann::ordered_json object_without_twins(const std::string& text, const std::string& path, const std::string& what,
                                            int most) {
  // The parser keeps the last of two equal keys, so that duplicates are looked for on the way.
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, nlohmann::ordered_json::parse_event_t event, nlohmann::ordered_json& value) {
    require<DataError>(depth <= most, path, ": ", what, " is nested too deeply. Is this a file of weights?");
    if (event == nlohmann::ordered_json::parse_event_t::object_start) keys.emplace_back();
    if (event == nlohmann::ordered_json::parse_event_t::object_end) keys.pop_back();
    if (event == nlohmann::ordered_json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      require<DataError>(keys.back().insert(key).second, path, ": ", what, " has '", key,
                         "' twice. The file is damaged; save it again.");
    }
    return true;
  };
  try {
    nlohmann::ordered_json object = nlohmann::ordered_json::parse(text, watch);
    require<DataError>(object.is_object(), path, ": ", what, " is not a JSON object. Is this a file of weights?");
    return object;
  } catch (const nlohmann::ordered_json::exception&) {
    throw DataError(concat(path, ": ", what, " is not JSON. Is this a file of weights?"));
  }
}

nlohmann::json json_or_discarded(std::string_view text) {
  try {
    return parsed_json<nlohmann::json>(text, "", false);
  } catch (const DataError&) {  // too deep
    return nlohmann::json::value_t::discarded;
  }
}

}  // namespace laconic
