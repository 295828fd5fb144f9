#include "apps/common/version.h"

#include <fmt/format.h>

#include <string_view>

#include "apps/version_commit.h"

namespace laconic {

const char* version() { return LACONIC_VERSION; }
const char* commit() { return LACONIC_COMMIT; }

std::string version_text() {
#ifdef __clang__
  const char* const compiler = "clang " __clang_version__;
#else
  const char* const compiler = "g++ " __VERSION__;
#endif
  return fmt::format("laconic {} (commit {})\nbuilt by {}, {}", version(), commit(), compiler, LACONIC_FEATURES);
}

std::vector<std::string> built_without() {
  constexpr std::string_view kWithout = "without ", all = LACONIC_FEATURES;
  std::vector<std::string> names;
  const auto at = all.find(kWithout);  // "with A, B; without C, D"
  for (auto rest = at == all.npos ? "" : all.substr(at + kWithout.size()); !rest.empty();) {
    const auto comma = rest.find(", ");
    names.emplace_back(rest.substr(0, comma));
    rest = comma == rest.npos ? "" : rest.substr(comma + 2);
  }
  return names;
}

}  // namespace laconic
