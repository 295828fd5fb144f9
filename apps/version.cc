#include "apps/version.h"

#include <fmt/format.h>

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

}  // namespace laconic
