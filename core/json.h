#pragma once
#include <string>

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

}  // namespace laconic
